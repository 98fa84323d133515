# Starts a server without Spark, with the arguments of this function, and waits until a port answers.
serve() {
    beam-runner-jobserver "$@" > given-server.log 2>&1 &
    for _ in $(seq 300); do
        if grep -q "serves the Beam Job API" given-server.log; then return; fi
        sleep 0.2
    done
    cat given-server.log
    exit 1
}
