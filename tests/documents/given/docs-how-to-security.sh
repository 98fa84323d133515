. "$(dirname "$0")/serve.sh"
# The server of the page is another machine; here, another address of this machine.
(cat /etc/hosts; echo "127.0.0.2 jobs.example.com") > hosts
mount --bind hosts /etc/hosts
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -keyout key.pem -out ca.pem \
    -subj /CN=jobs.example.com -addext subjectAltName=DNS:jobs.example.com 2> openssl.log
openssl rand -hex 32 > token
chmod 600 token key.pem
serve --job-host 127.0.0.2 --job-port 8099 --serve-http=false --token-file token --tls-cert ca.pem --tls-key key.pem
