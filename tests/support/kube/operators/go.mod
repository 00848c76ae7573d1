// Definitions of kubeflow's Spark operator, for the tests of examples/kubernetes; nothing is built of it.
module fairlead.dev/tests/operators

go 1.26.0

require github.com/kubeflow/spark-operator/v2 v2.5.1
