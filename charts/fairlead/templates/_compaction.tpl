{{/*
Compaction of the job's tables by a Pod of its own: which volume it needs, and where it may have it.

    tables in a store      no volume, anywhere
    tables below /data     the job's claim: ReadWriteMany anywhere, ReadWriteOnce on the job's node, else refused
*/}}

{{/* How the job's claim is mounted, "" where no table lies on it; refuses what no second Pod can mount or do. */}}
{{- define "fairlead.compactionVolume" -}}
{{- $own := list }}
{{- range (include "fairlead.ingestJobs" . | fromYaml).jobs }}
{{- if include "fairlead.liesIn" (list .table (list "/data")) }}
{{- $own = append $own .table }}
{{- end }}
{{- end }}
{{- $catalog := (($.Values.ingest.config | default dict).catalog).uri | default "" }}
{{- if hasPrefix "sqlite:////data/" $catalog }}
{{- $own = append $own $catalog }}
{{- end }}
{{- if $own }}
{{- $modes := .Values.ingest.persistence.accessModes | default (list "ReadWriteOnce") }}
{{- if eq .Values.ingest.persistence.type "emptyDir" }}
{{- fail (printf "ingest.compaction: %s lies in an emptyDir of the job's Pod, which no other Pod can mount; take ingest.persistence.type=claim or a table in s3://bucket/path, or run it there: kubectl exec -n %s %s-ingest-0 -- fairlead ingest compact --config /etc/fairlead/ingest.toml" (first $own) .Release.Namespace (include "fairlead.fullname" .)) }}
{{- else if has "ReadWriteMany" $modes }}many
{{- else if has "ReadWriteOnce" $modes }}once
{{- else }}
{{- fail (printf "ingest.compaction: %s lies on a volume that one Pod alone may mount (ingest.persistence.accessModes: ReadWriteOncePod); take ReadWriteOnce or ReadWriteMany, or run it in the job's Pod: kubectl exec -n %s %s-ingest-0 -- fairlead ingest compact --config /etc/fairlead/ingest.toml" (first $own) .Release.Namespace (include "fairlead.fullname" .)) }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Where it runs: where the job may, and on the job's own node where one node alone can have the volume. Call with
(list $ volume). */}}
{{- define "fairlead.compactionPlacement" -}}
{{- $root := index . 0 }}
{{- $affinity := deepCopy ($root.Values.ingest.affinity | default dict) }}
{{- if eq (index . 1) "once" }}
{{- $beside := dict "labelSelector" (dict "matchLabels" (include "fairlead.selector" (list $root "ingest") | fromYaml)) "topologyKey" "kubernetes.io/hostname" }}
{{- $pods := $affinity.podAffinity | default dict }}
{{- $key := "requiredDuringSchedulingIgnoredDuringExecution" }}
{{- $_ := set $pods $key (append (get $pods $key | default list) $beside) }}
{{- $_ := set $affinity "podAffinity" $pods }}
{{- end }}
{{- $values := dict "priorityClassName" $root.Values.ingest.priorityClassName "nodeSelector" $root.Values.ingest.nodeSelector "tolerations" $root.Values.ingest.tolerations "affinity" $affinity }}
{{- include "fairlead.placementOf" (list $root "ingest-compaction" $values) }}
{{- end -}}
