# Builds the job where that is not done yet, and runs it in one JVM: start.sh FOLDER CLASSPATH [earliest | offsets]
# The tables are in FOLDER/lake. It goes on from the newest checkpoint in FOLDER/checkpoints, unless it is told to begin without one.
set -e
folder=$1 classpath=$2 begin=$3
if [ ! -e "$folder/classes" ]; then
    javac -d "$folder/part" -cp "$classpath" "$(dirname "$0")/Booking.java"
    mv "$folder/part" "$folder/classes"
fi
if [ -z "$begin" ] && [ -e "$folder/checkpoints" ]; then
    begin=$(find "$folder/checkpoints" -name _metadata -printf '%T@ %h\n' | sort -n | tail -1 | cut -d' ' -f2-)
fi
exec java -Xmx384m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$folder/classes:$classpath" \
    Booking "$folder/lake" "$folder/checkpoints" "${begin:-earliest}"
