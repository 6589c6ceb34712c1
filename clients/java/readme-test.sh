#!/usr/bin/env bash
# Follows the README in an empty folder: installs the artifact, runs the first program and both
# examples against a server.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
binary=$(realpath "${TOLLGATE_BINARY:-$here/../../target/debug/tollgate}")
folder=$(mktemp -d)
server=
web=
cleanup() {
    for process in $web $server; do kill "$process" 2>/dev/null || true; done
    rm -rf "$folder"
}
trap cleanup EXIT

block() {
    awk -v mark="$1" '$0 == "```" mark { on = 1; next } /^```/ { on = 0 } on' "$here/README.md"
}

block "bash install" >"$folder/install.sh"
(cd "$here/../.." && bash -e "$folder/install.sh")
cd "$folder"
# A web server that is killed leaves files there.
export JAVA_TOOL_OPTIONS="-Djava.io.tmpdir=$folder"
block "xml pom.xml" >pom.xml
block "java First.java" >First.java
block "bash run" >run.sh
lines=$(wc -l <First.java)
[[ $lines -le 15 ]] || { echo "the first program has $lines lines"; exit 1; }

block "toml tollgate.toml" >tollgate.toml
"$binary" serve --config tollgate.toml --listen 127.0.0.1:0 --admin off >server.log 2>&1 &
server=$!
address=
until [[ -n $address ]]; do
    sleep 0.1
    kill -0 "$server" || { cat server.log; exit 1; }
    address=$(grep -oE '127\.0\.0\.1:[1-9][0-9]+' server.log | head -1 || true)
done
sed -i "s/127\.0\.0\.1:50051/$address/" First.java

expect() {
    echo "$2"
    grep -q "$1" <<<"$2" || { echo "expected: $1"; exit 1; }
}
expect "COMPLETED$" "$(bash -e run.sh)"
expect "AlreadyCompleted" "$(bash -e run.sh)"
expect "device-2 has run its queue" \
    "$(java -cp "$(cat classpath)" "$here/examples/DeviceBackend.java" "$address")"

block "xml spring" >spring.xml
sed -i '/<dependencies>/r spring.xml' pom.xml
cp "$here/examples/WebService.java" .
block "bash web" | sed "s/127\.0\.0\.1:50051/$address/; s/--server.port=8080/--server.port=0/; s/^java /exec java /" >web.sh
bash -e web.sh >web.log 2>&1 &
web=$!
port=
until [[ -n $port ]]; do
    sleep 0.1
    kill -0 "$web" || { cat web.log; exit 1; }
    port=$(grep -oE 'Tomcat started on port [0-9]+' web.log | grep -oE '[0-9]+$' || true)
done
for number in 1 2 3; do
    answer=$(curl -si -H 'x-caller: me' "http://127.0.0.1:$port/order" | tr -d '\r')
    expect "^order $number$" "$answer"
    grep -qi "^RateLimit: " <<<"$answer" || { echo "no header RateLimit"; exit 1; }
done
answer=$(curl -si -H 'x-caller: me' "http://127.0.0.1:$port/order" | tr -d '\r')
expect " 429 *$" "$answer"
expect "^Retry-After: " "$answer"
expect "^order 4$" "$(curl -s -H 'x-caller: you' "http://127.0.0.1:$port/order")"
