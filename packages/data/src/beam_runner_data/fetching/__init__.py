"""Downloads of a job's files to the machines that read the files: once per machine, with
checksums.
"""
