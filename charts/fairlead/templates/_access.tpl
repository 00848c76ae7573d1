{{/* [[access]] of messaging.toml, as YAML {entries: []}: what this release's own rooms need, and nothing more. */}}
{{- define "fairlead.access" -}}
{{- $fullname := include "fairlead.fullname" . -}}
{{- $access := default dict .Values.messaging.access -}}
{{- $hubEvents := dig "events" "topic" "system/events" .Values.hub.config -}}
{{- $ingestEvents := dig "events" "topic" "system/events" .Values.ingest.config -}}
{{- $hub := $access.hubSubject | default (printf "%s-hub" $fullname) -}}
{{- $ingest := $access.ingestSubject | default (printf "%s-ingest" $fullname) -}}
{{- $entries := list (dict "subject" $hub "verbs" (list "publish" "create") "topics" (list "*" "!system/*")) -}}
{{- $entries = append $entries (dict "subject" $hub "verbs" (list "publish" "consume" "create") "topics" (list "system/inputs-*")) -}}
{{- if $hubEvents -}}
{{- $entries = append $entries (dict "subject" $hub "verbs" (list "publish" "create") "topics" (list $hubEvents)) -}}
{{- end -}}
{{- if .Values.ingest.enabled -}}
{{- $topics := .Values.ingest.config.topics | default .Values.ingest.topics -}}
{{- range .Values.ingest.config.pipelines -}}
{{- $topics = concat $topics .topics -}}
{{- end -}}
{{- $entries = append $entries (dict "subject" $ingest "verbs" (list "consume") "topics" (uniq $topics)) -}}
{{- if $ingestEvents -}}
{{- $entries = append $entries (dict "subject" $ingest "verbs" (list "publish" "create") "topics" (list $ingestEvents)) -}}
{{- end -}}
{{- end -}}
{{- /* helm test sends a message there and back. */ -}}
{{- $entries = append $entries (dict "subject" (printf "%s-test" $fullname) "verbs" (list "publish" "consume" "administer") "topics" (list "helm-test/*")) -}}
{{- toYaml (dict "entries" (concat $entries ($access.more | default list))) -}}
{{- end -}}
