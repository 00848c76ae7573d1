{{/*
Spark of `ingest`, where `ingest.spark.mode` is kubernetes: the job's Pod is the driver, and asks the API server for Pods
of executors. An installation of the version before has no `ingest.spark` at all.
*/}}
{{- define "fairlead.onExecutors" -}}
{{- if eq ((.Values.ingest.spark).mode | default "local") "kubernetes" }}true{{ end -}}
{{- end -}}

{{/* The Secret with which driver and executors authenticate each other. */}}
{{- define "fairlead.sparkSecret" -}}
{{- ((.Values.ingest.spark).secretName) | default (printf "%s-ingest-spark" (include "fairlead.fullname" .)) -}}
{{- end -}}

{{/* The driver's settings; those of users take precedence. */}}
{{- define "fairlead.sparkConf" -}}
{{- $driver := printf "%s-ingest" (include "fairlead.fullname" .) }}
{{- $executors := .Values.ingest.spark.executors }}
master: k8s://https://kubernetes.default.svc
conf:
  spark.executor.instances: {{ $executors.instances | quote }}
  spark.executor.cores: {{ $executors.cores | quote }}
  spark.executor.memory: {{ $executors.memory | quote }}
  spark.executor.memoryOverhead: {{ $executors.memoryOverhead | quote }}
  {{- with $executors.cpuRequest }}
  spark.kubernetes.executor.request.cores: {{ . | quote }}
  {{- end }}
  {{- with $executors.cpuLimit }}
  spark.kubernetes.executor.limit.cores: {{ . | quote }}
  {{- end }}
  # A job that runs for months: what failed long ago does not count.
  spark.executor.failuresValidityInterval: 10m
  # Begin with the first executor, not with most of them.
  spark.scheduler.minRegisteredResourcesRatio: "0"
  spark.kubernetes.namespace: {{ .Release.Namespace }}
  spark.kubernetes.container.image: {{ include "fairlead.image" (list . "ingest-cluster") }}
  spark.kubernetes.container.image.pullPolicy: {{ .Values.image.pullPolicy }}
  # The owner of its executors: they go when it goes.
  spark.kubernetes.driver.pod.name: {{ $driver }}-0
  spark.kubernetes.executor.podTemplateFile: /etc/fairlead/executor.yaml
  spark.kubernetes.executor.podTemplateContainerName: executor
  # What is not made needs no right: the driver's Role is about Pods alone.
  spark.kubernetes.executor.disableConfigMap: "true"
  spark.kubernetes.driver.service.deleteOnTermination: "false"
  spark.kubernetes.driver.ownPersistentVolumeClaim: "false"
  spark.kubernetes.driver.reusePersistentVolumeClaim: "false"
  spark.driver.host: {{ $driver }}-0.{{ $driver }}.{{ .Release.Namespace }}.svc
  spark.driver.bindAddress: 0.0.0.0
  spark.driver.port: "7078"
  spark.driver.blockManager.port: "7079"
  spark.blockManager.port: "7079"
  # Who does not know the Secret is no executor, and what passes between them is encrypted.
  spark.authenticate: "true"
  spark.authenticate.secret.file: /etc/fairlead/spark/secret
  spark.network.crypto.enabled: "true"
  spark.network.crypto.saslFallback: "false"
{{- end -}}

{{/* Variables of everything that reads topics or writes tables: the job's container, compaction's, and the executors', which
get SPARK_LOCAL_DIRS from Spark. Call with (list $ "ingest"). */}}
{{- define "fairlead.ingestEnv" -}}
{{- $root := index . 0 -}}
{{- $env := list }}
{{- if eq (index . 1) "ingest" }}
{{- $env = append $env (dict "name" "SPARK_LOCAL_DIRS" "value" "/tmp") }}
{{- end }}
{{- with (default dict $root.Values.ingest.storeAuthority) }}
{{- if .secretName }}
{{- $env = append $env (dict "name" "SSL_CERT_FILE" "value" (printf "/etc/fairlead/store-authority/%s" .key)) }}
{{- end }}
{{- end }}
{{- with concat $env (default list $root.Values.ingest.env) -}}
env:
  {{- range . }}
  {{- if eq (keys . | sortAlpha | join " ") "name value" }}
  - {name: {{ .name }}, value: {{ .value | toJson }}}
  {{- else }}
  - {{ toYaml . | nindent 4 | trim }}
  {{- end }}
  {{- end }}
{{- end }}
{{- with $root.Values.ingest.envFrom }}
envFrom: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* What the job, its executors and compaction mount. Call with (list $ true), where false: only what reads and writes
tables. */}}
{{- define "fairlead.ingestMounts" -}}
{{- $root := index . 0 }}
{{- $mounts := list }}
{{- if index . 1 }}
{{- $mounts = append $mounts (dict "name" "tls" "mountPath" "/etc/fairlead/tls" "readOnly" true) }}
{{- end }}
{{- if ($root.Values.ingest.storeAuthority).secretName }}
{{- $mounts = append $mounts (dict "name" "store-authority" "mountPath" "/etc/fairlead/store-authority" "readOnly" true) }}
{{- end }}
{{- if and (index . 1) (include "fairlead.onExecutors" $root) }}
{{- $mounts = append $mounts (dict "name" "spark" "mountPath" "/etc/fairlead/spark" "readOnly" true) }}
{{- end }}
{{- if $root.Values.ingest.files }}
{{- $mounts = append $mounts (dict "name" "files" "mountPath" "/etc/fairlead/files" "readOnly" true) }}
{{- end }}
{{- range $mounts }}
- {name: {{ .name }}, mountPath: {{ .mountPath }}, readOnly: true}
{{- end }}
{{- with $root.Values.ingest.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The volumes of these. */}}
{{- define "fairlead.ingestVolumes" -}}
{{- $root := index . 0 }}
{{- if index . 1 }}
- name: tls
  secret: {secretName: {{ include "fairlead.fullname" $root }}-ingest-tls, defaultMode: 0440}
{{- end }}
{{- with ($root.Values.ingest.storeAuthority).secretName }}
- name: store-authority
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- if and (index . 1) (include "fairlead.onExecutors" $root) }}
- name: spark
  secret: {secretName: {{ include "fairlead.sparkSecret" $root }}, defaultMode: 0440}
{{- end }}
{{- if $root.Values.ingest.files }}
- name: files
  configMap: {name: {{ include "fairlead.fullname" $root }}-ingest-files}
{{- end }}
{{- with $root.Values.ingest.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The Pod of an executor, without what Spark adds: the image, its arguments, memory and cores. */}}
{{- define "fairlead.executorTemplate" -}}
{{- $executors := .Values.ingest.spark.executors }}
apiVersion: v1
kind: Pod
metadata:
  labels: {{- include "fairlead.podLabels" (list . "ingest-executor") | nindent 4 }}
  {{- with $executors.podAnnotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "fairlead.fullname" . }}-ingest-executor
  {{- include "fairlead.podSecurity" . | nindent 2 }}
  {{- include "fairlead.pullSecrets" . | nindent 2 }}
  {{- include "fairlead.executorPlacement" . | nindent 2 }}
  containers:
    - name: executor
      {{- include "fairlead.containerSecurity" . | nindent 6 }}
      workingDir: /tmp
      {{- include "fairlead.ingestEnv" (list . "ingest-executor") | nindent 6 }}
      volumeMounts:
        {{- include "fairlead.ingestMounts" (list . true) | trim | nindent 8 }}
        - {name: spark-local-dir-1, mountPath: /tmp}
  volumes:
    {{- include "fairlead.ingestVolumes" (list . true) | trim | nindent 4 }}
    # By this name Spark takes it for its own files.
    - name: spark-local-dir-1
      emptyDir: {sizeLimit: 2Gi}
{{- end -}}

{{/* Where executors run: by default where the driver runs. */}}
{{- define "fairlead.executorPlacement" -}}
{{- $own := .Values.ingest.spark.executors }}
{{- $driver := .Values.ingest }}
{{- $values := dict "priorityClassName" ($own.priorityClassName | default $driver.priorityClassName) "nodeSelector" ($own.nodeSelector | default $driver.nodeSelector) "tolerations" ($own.tolerations | default $driver.tolerations) "affinity" ($own.affinity | default $driver.affinity) "topologySpreadConstraints" $own.topologySpreadConstraints }}
{{- include "fairlead.placementOf" (list . "ingest-executor" $values) }}
{{- end -}}
