. "$(dirname "$0")/serve.sh"
serve --job-port 8099 --state-dir state
python3 submit_streams.py JOB
sleep 5
