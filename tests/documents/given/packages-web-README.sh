. "$(dirname "$0")/serve.sh"
serve --job-port 8099 --serve-http=false
