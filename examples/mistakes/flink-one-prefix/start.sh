# Two jobs: one prices orders, the other, deployed later, refunds: start.sh FOLDER CLASSPATH PREFIX PREFIX-OF-THE-OTHER
# Whichever ends is started again, ten seconds later.
folder=$1 classpath=$2

keep_up() {
    while :; do
        sh ../../flink/start.sh "$folder" "$classpath" "$1" "$2" EXACTLY_ONCE "$3"
        sleep 10
    done
}

await_checkpoint() {
    until ls "$folder/$1"/*/chk-*/_metadata >"$folder/found" 2>&1; do
        sleep 0.1
    done
}

keep_up orders priced "$3" &
await_checkpoint orders
keep_up refunds refunded "$4" &
await_checkpoint refunds
echo "both jobs run"
wait
