# Builds the topology where that is not done yet, and runs it in one JVM: start.sh FOLDER CLASSPATH FROM TO [unanchored]
set -e
folder=$1 classpath=$2
shift 2
if [ ! -e "$folder/classes" ]; then
    javac -d "$folder/part" -cp "$classpath" "$(dirname "$0")/Pricing.java"
    mv "$folder/part" "$folder/classes"
fi
exec java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$folder/classes:$classpath" Pricing "$@"
