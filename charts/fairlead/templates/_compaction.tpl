{{/*
Compaction of the job's tables by a Pod of its own: which volume it needs, and where it may have it.

    tables in a store      no volume, anywhere
    tables below /data     the job's claim: ReadWriteMany anywhere, ReadWriteOnce on the job's node, else refused
*/}}

{{/* How the job's claim is mounted, "" if no table is on it; fails if a second Pod cannot mount it. */}}
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
{{- fail (printf "ingest.compaction: %s is in an emptyDir of the job's Pod, which no other Pod can mount; use ingest.persistence.type=claim or a table in s3://bucket/path, or run the compaction in that Pod: kubectl exec -n %s %s-ingest-0 -- fairlead ingest compact --config /etc/fairlead/ingest.toml" (first $own) .Release.Namespace (include "fairlead.fullname" .)) }}
{{- else if has "ReadWriteMany" $modes }}many
{{- else if has "ReadWriteOnce" $modes }}once
{{- else }}
{{- fail (printf "ingest.compaction: %s is on a volume that only one Pod may mount (ingest.persistence.accessModes: ReadWriteOncePod); use ReadWriteOnce or ReadWriteMany, or run the compaction in the job's Pod: kubectl exec -n %s %s-ingest-0 -- fairlead ingest compact --config /etc/fairlead/ingest.toml" (first $own) .Release.Namespace (include "fairlead.fullname" .)) }}
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
