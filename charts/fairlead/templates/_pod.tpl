{{/* Security context of every Pod: not root, only volumes are writable, no capabilities. */}}
{{- define "fairlead.podSecurity" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- end -}}

{{- define "fairlead.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end -}}

{{/* Probes on the plain health port. A program that does not respond for half a minute is restarted. */}}
{{- define "fairlead.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: health}
  periodSeconds: 1
  failureThreshold: 120
livenessProbe:
  httpGet: {path: /healthz, port: health}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /readyz, port: health}
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 3
{{- end -}}

{{/* Where a room's Pods run. Call with (list $ "hub"). */}}
{{- define "fairlead.placement" -}}
{{- $root := index . 0 -}}
{{- $room := index . 1 -}}
{{- include "fairlead.placementOf" (list $root $room (index $root.Values $room)) }}
{{- end -}}

{{/* The same from values that are not the room's own. Call with (list $ "ingest-executor" values). */}}
{{- define "fairlead.placementOf" -}}
{{- $root := index . 0 -}}
{{- $room := index . 1 -}}
{{- $values := index . 2 -}}
{{- with $values.priorityClassName | default (ternary (include "fairlead.priorityClass" $root) "" ((($root.Values.priorityClass).create) | default false)) }}
priorityClassName: {{ . }}
{{- end }}
{{- with $values.topologySpreadConstraints }}
topologySpreadConstraints:
{{- range . }}
  - {{ toYaml (merge (deepCopy .) (dict "labelSelector" (dict "matchLabels" (include "fairlead.selector" (list $root $room) | fromYaml)))) | nindent 4 | trim }}
{{- end }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* A Service. Call with (dict "root" $ "room" "hub" "values" .Values.hub.service "port" "link"). */}}
{{- define "fairlead.service" -}}
{{- $service := .values -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ include "fairlead.fullname" .root }}-{{ .room }}
  labels: {{- include "fairlead.labels" (list .root .room) | nindent 4 }}
  {{- with $service.annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  type: {{ $service.type }}
  selector: {{- include "fairlead.selector" (list .root .room) | nindent 4 }}
  {{- if ne $service.type "ClusterIP" }}
  externalTrafficPolicy: {{ $service.externalTrafficPolicy }}
  {{- end }}
  {{- if eq $service.type "LoadBalancer" }}
  {{- with $service.loadBalancerClass }}
  loadBalancerClass: {{ . }}
  {{- end }}
  {{- with $service.loadBalancerSourceRanges }}
  loadBalancerSourceRanges: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
  ports:
    - name: {{ .port }}
      port: {{ $service.port }}
      targetPort: {{ .port }}
      protocol: TCP
      {{- if and (ne $service.type "ClusterIP") $service.nodePort }}
      nodePort: {{ $service.nodePort }}
      {{- end }}
{{- end -}}

{{/* The data volume of a StatefulSet: its claim template, or a volume. Call with the room's persistence. */}}
{{- define "fairlead.claims" -}}
{{- if eq .type "claim" }}
volumeClaimTemplates:
  - metadata:
      name: data
    spec:
      accessModes: {{- toYaml .accessModes | nindent 8 }}
      {{- if not (kindIs "invalid" .storageClass) }}
      storageClassName: {{ .storageClass | quote }}
      {{- end }}
      resources:
        requests:
          storage: {{ .size }}
{{- end }}
{{- end -}}

{{/* Health and metrics of a room, inside the cluster alone: plain HTTP, which the room's own Service never shows. Also
for a Pod that is not ready: that is when one wants to know. Call with (dict "root" $ "room" "hub" "port" 10003). */}}
{{- define "fairlead.healthService" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ include "fairlead.fullname" .root }}-{{ .room }}-health
  labels: {{- include "fairlead.labels" (list .root .room) | nindent 4 }}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector: {{- include "fairlead.selector" (list .root .room) | nindent 4 }}
  ports:
    - {name: health, port: {{ .port }}, targetPort: health, protocol: TCP}
{{- end -}}

{{/* The name of the release's PriorityClass; cluster-wide, so the namespace is part of it. */}}
{{- define "fairlead.priorityClass" -}}
{{- printf "%s-%s" .Release.Namespace (include "fairlead.fullname" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Egress to DNS: the port of its Service, and the one behind it on OpenShift. */}}
{{- define "fairlead.dnsEgress" -}}
- ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
    - {port: 5353, protocol: UDP}
    - {port: 5353, protocol: TCP}
  {{- with .Values.networkPolicy.dnsTo }}
  to: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* Egress to the API server: the port of its Service, and the port behind it. */}}
{{- define "fairlead.apiServerEgress" -}}
- ports:
    {{- range ((.Values.networkPolicy.apiServer).ports) | default (list 443 6443) }}
    - {port: {{ . }}, protocol: TCP}
    {{- end }}
  {{- with ((.Values.networkPolicy.apiServer).to) }}
  to: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
