# shellcheck shell=bash
# tests/run.sh uses the variables:
# shellcheck disable=SC2034
# Redis, Redis Cluster and Sentinels for the tests; tests/run.sh sources this file.
#
# All processes listen on the loopback, persist nothing, and end with `stop_farm`.

farm_dir=$(mktemp -d)
farm_pids=()

# start_redis PORT [arguments]: starts a redis-server and waits until it answers.
start_redis() {
    local port=$1
    shift
    mkdir -p "$farm_dir/$port"
    redis-server --port "$port" --bind 127.0.0.1 --save '' --appendonly no \
        --dir "$farm_dir/$port" "$@" >/dev/null &
    farm_pids+=($!)
    until redis-cli -p "$port" ping >/dev/null 2>&1; do
        kill -0 "$!" || { echo "tests: redis-server did not start on port $port" >&2; return 1; }
        sleep 0.05
    done
}

# free_port: prints an unused port below the range of client ports.
free_port() {
    local port
    while :; do
        port=$((10000 + RANDOM % 10000))
        (: </dev/tcp/127.0.0.1/$port) 2>/dev/null || { echo "$port"; return; }
    done
}

# start_cluster: starts three primaries with a replica each; sets cluster_url and cluster_nodes.
start_cluster() {
    local ports=() places=() port
    for _ in 1 2 3 4 5 6; do
        port=$(free_port)
        start_redis "$port" --cluster-enabled yes --cluster-port "$(free_port)"
        ports+=("$port")
        places+=("127.0.0.1:$port")
    done
    redis-cli --cluster create "${places[@]}" --cluster-replicas 1 --cluster-yes >/dev/null
    for port in "${ports[@]}"; do
        until redis-cli -p "$port" cluster info | grep -q 'cluster_state:ok'; do sleep 0.05; done
    done
    cluster_url="redis+cluster://127.0.0.1:${ports[0]},127.0.0.1:${ports[1]}"
    cluster_nodes=$(printf 'redis://127.0.0.1:%s ' "${ports[@]:0:3}")
    cluster_nodes=${cluster_nodes% }
}

# start_sentinels: starts a primary, a replica and three Sentinels; sets sentinel_url and
# sentinel_nodes.
start_sentinels() {
    local primary replica places=() port
    primary=$(free_port)
    start_redis "$primary"
    replica=$(free_port)
    start_redis "$replica" --replicaof 127.0.0.1 "$primary"
    for _ in 1 2 3; do
        port=$(free_port)
        mkdir -p "$farm_dir/$port"
        printf 'port %s\nbind 127.0.0.1\ndir %s\nsentinel monitor main 127.0.0.1 %s 2\n' \
            "$port" "$farm_dir/$port" "$primary" >"$farm_dir/$port/sentinel.conf"
        redis-server "$farm_dir/$port/sentinel.conf" --sentinel >/dev/null &
        farm_pids+=($!)
        until redis-cli -p "$port" ping >/dev/null 2>&1; do sleep 0.05; done
        places+=("127.0.0.1:$port")
    done
    sentinel_url="redis+sentinel://${places[0]},${places[1]},${places[2]}/main"
    sentinel_nodes="redis://127.0.0.1:$primary"
}

# stop_farm: ends the processes started here, by process id.
stop_farm() {
    kill "${farm_pids[@]}" 2>/dev/null || true
    rm -rf "$farm_dir"
}
