#!/bin/sh
# Starts an executor if Spark's Kubernetes client asks for one, and otherwise the job server.
# Spark passes an executor's settings in variables (BasicExecutorFeatureStep in Spark's sources).
set -eu

if [ "${1:-}" != executor ]; then
    exec /opt/beam/bin/beam-spark-jobserver "$@"
fi
shift

# Add the Java options SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, ... in this order.
number=0
while eval "[ -n \"\${SPARK_JAVA_OPT_$number+set}\" ]"; do
    eval "option=\$SPARK_JAVA_OPT_$number"
    set -- "$@" "$option"
    number=$((number + 1))
done

jars=$(/opt/beam/bin/python3 -c 'import importlib.util; print(*importlib.util.find_spec("pyspark").submodule_search_locations)')/jars
exec java "$@" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
    -cp "${SPARK_CONF_DIR:+$SPARK_CONF_DIR:}$jars/*${SPARK_CLASSPATH:+:$SPARK_CLASSPATH}" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" \
    --executor-id "$SPARK_EXECUTOR_ID" \
    --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" \
    --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
    --podName "$SPARK_EXECUTOR_POD_NAME"
