{{- define "fairlead-edge.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "fairlead-edge.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "fairlead-edge.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "fairlead-edge.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Labels of every object. Call with (list $ "hub"). */}}
{{- define "fairlead-edge.labels" -}}
{{- $root := index . 0 -}}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
app.kubernetes.io/part-of: fairlead
{{ include "fairlead-edge.selector" . }}
{{- end -}}

{{/* Labels of Pods: without the chart's version, so that not every upgrade restarts them. */}}
{{- define "fairlead-edge.podLabels" -}}
app.kubernetes.io/part-of: fairlead
{{ include "fairlead-edge.selector" . }}
{{- end -}}

{{- define "fairlead-edge.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "fairlead-edge.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* A room's image. Call with (list $ "hub"). */}}
{{- define "fairlead-edge.image" -}}
{{- $root := index . 0 -}}
{{- with $root.Values.image -}}
{{- printf "%s/%s%s:%s" .registry .prefix (index $ 1) (default $root.Chart.AppVersion .tag) -}}
{{- end -}}
{{- end -}}

{{- define "fairlead-edge.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The name of a node's Secret. A node's name may have 253 characters, and so may the Secret's: one that would be longer
is cut and ends with a digest. Call with (list "fairlead-edge-" "node"). */}}
{{- define "fairlead-edge.nodeSecret" -}}
{{- $prefix := index . 0 -}}
{{- $node := index . 1 -}}
{{- if le (add (len $prefix) (len $node)) 253 -}}
{{- printf "%s%s" $prefix $node -}}
{{- else -}}
{{- printf "%s%s-%s" $prefix (trunc (sub 244 (len $prefix) | int) $node | trimSuffix ".") (sha256sum $node | trunc 8) -}}
{{- end -}}
{{- end -}}
