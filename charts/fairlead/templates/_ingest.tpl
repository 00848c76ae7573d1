{{/*
What `ingest` is, said once for the job's Pod, its executors and compaction; and what could not work, said before anything
is installed. An installation of the version before lacks the newest values.
*/}}

{{/* Each table of the job with what its pipeline inherits, as YAML {jobs: []}. */}}
{{- define "fairlead.ingestJobs" -}}
{{- $config := .Values.ingest.config | default dict }}
{{- $inherited := list "table_format" "sink" "format" "schema" "transforms" "dedupe_seconds" "latest" }}
{{- $jobs := list }}
{{- $own := pick $config "topics" "table" "checkpoint" | merge (dict "where" "ingest" "config" "ingest.config" "name" ($config.reader | default "ingest")) }}
{{- range $key := list "topics" "table" "checkpoint" }}
{{- if not (hasKey $own $key) }}
{{- $_ := set $own $key (get $.Values.ingest $key) }}
{{- end }}
{{- end }}
{{- if or $own.topics $own.table $own.checkpoint }}
{{- $jobs = append $jobs (merge $own (pick $config "table_format" "sink" "format" "schema" "transforms" "dedupe_seconds" "latest")) }}
{{- end }}
{{- range $index, $pipeline := $config.pipelines | default list }}
{{- $where := printf "ingest.config.pipelines[%d]" $index }}
{{- $job := merge (dict "where" $where "config" $where "name" ($pipeline.name | default (printf "pipeline-%d" (add1 $index)))) $pipeline }}
{{- range $key := $inherited }}
{{- /* A key that is there, be it empty, is the pipeline's own. */}}
{{- if kindIs "invalid" (get $job $key) }}
{{- $_ := unset $job $key }}
{{- end }}
{{- if and (not (hasKey $job $key)) (hasKey $config $key) }}
{{- $_ := set $job $key (get $config $key) }}
{{- end }}
{{- end }}
{{- $jobs = append $jobs $job }}
{{- end }}
{{- range $jobs }}
{{- $_ := set . "table_format" (.table_format | default .sink | default "delta") }}
{{- $_ := set . "latest" (ternary .latest dict (kindIs "map" .latest)) }}
{{- end }}
{{- toYaml (dict "jobs" $jobs) }}
{{- end -}}

{{/* Mount paths of the users' volumes: files below these paths outlive a container. As YAML {paths: []}. */}}
{{- define "fairlead.ingestPaths" -}}
{{- $paths := list "/data" }}
{{- range .Values.ingest.extraVolumeMounts }}
{{- $paths = append $paths (clean .mountPath) }}
{{- end }}
{{- toYaml (dict "paths" $paths) }}
{{- end -}}

{{/* "true" if a path is in one of these folders. Call with (list path folders). */}}
{{- define "fairlead.liesIn" -}}
{{- $path := clean (index . 0) }}
{{- $found := false }}
{{- range index . 1 }}
{{- $found = or $found (hasPrefix (printf "%s/" .) $path) }}
{{- end }}
{{- if $found }}true{{ end -}}
{{- end -}}

{{/* Fails if this is not a valid location of a table or checkpoint. Call with (dict "key" … "place" … "paths" …). */}}
{{- define "fairlead.checkPlace" -}}
{{- if not .place }}
{{- fail (printf "%s: required, but empty; give a path below /data, or s3://bucket/path" .key) }}
{{- else if hasPrefix "s3://" .place }}
{{- if not (regexMatch "^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/[^/]" .place) }}
{{- fail (printf "%s: must be s3://bucket/path, is %s" .key .place) }}
{{- end }}
{{- else if regexMatch "^[A-Za-z][A-Za-z0-9+.-]+:/" .place }}
{{- fail (printf "%s: only s3://bucket/path is supported, and paths on the volume; is %s" .key .place) }}
{{- else if not (include "fairlead.liesIn" (list .place .paths)) }}
{{- fail (printf "%s: %s is not on a volume of the Pod, whose root file system is read-only; use a path below /data (or below a mountPath of ingest.extraVolumeMounts), or s3://bucket/path" .key .place) }}
{{- end }}
{{- end -}}

{{/* Fails if the Pod would not have this file. Call with (list $ key path). */}}
{{- define "fairlead.checkFile" -}}
{{- $root := index . 0 }}
{{- $key := index . 1 }}
{{- with index . 2 }}
{{- $own := list "/etc/fairlead/files" }}
{{- $there := concat (include "fairlead.ingestPaths" $root | fromYaml).paths (list "/etc/fairlead/tls" "/var/run/secrets") }}
{{- if ($root.Values.ingest.storeAuthority).secretName }}
{{- $there = append $there "/etc/fairlead/store-authority" }}
{{- end }}
{{- if include "fairlead.liesIn" (list . $own) }}
{{- if not (hasKey ($root.Values.ingest.files | default dict) (base .)) }}
{{- fail (printf "%s: %s is not in ingest.files; add it with --set-file 'ingest.files.%s=FILE'" $key . (base . | replace "." "\\.")) }}
{{- end }}
{{- else if not (include "fairlead.liesIn" (list . $there)) }}
{{- fail (printf "%s: %s is not on a volume of the Pod; put a text file into ingest.files and refer to it as /etc/fairlead/files/NAME, or mount a Secret with ingest.extraVolumes and ingest.extraVolumeMounts" $key .) }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Fails for settings that the job would refuse, or with which it would restart again and again. */}}
{{- define "fairlead.checkIngest" -}}
{{- $root := . }}
{{- $config := .Values.ingest.config | default dict }}
{{- $jobs := (include "fairlead.ingestJobs" . | fromYaml).jobs }}
{{- $paths := (include "fairlead.ingestPaths" . | fromYaml).paths }}
{{- if not $jobs }}
{{- fail "ingest.topics: required, but empty (or set ingest.config.pipelines or ingest.enabled=false)" }}
{{- end }}
{{- if eq (toString $config.trigger) "available-now" }}
{{- fail "ingest.config.trigger: with available-now the job ends, and its Pod would restart again and again; set seconds (ingest.trigger)" }}
{{- end }}
{{- with $config.health_listen }}
{{- if not (regexMatch "^(0\\.0\\.0\\.0|\\[::\\]):11017$" .) }}
{{- fail (printf "ingest.config.health_listen: must not be set, because probes and metrics use port 11017 of the Pod; is %s" .) }}
{{- end }}
{{- end }}
{{- $plain := eq ($config.security | default "mtls") "insecure" }}
{{- if not (hasPrefix (ternary "http://" "https://" $plain) ($config.messaging_url | default "https://")) }}
{{- fail (printf "ingest.config.messaging_url: must begin with %s with ingest.config.security=%s" (ternary "http://" "https://" $plain) ($config.security | default "mtls")) }}
{{- end }}
{{- include "fairlead.checkStoreAddress" (list "ingest.config.storage.endpoint_url" ($config.storage).endpoint_url) }}
{{- range $key, $file := pick ($config.storage | default dict) "secret_access_key_file" "session_token_file" }}
{{- include "fairlead.checkFile" (list $root (printf "ingest.config.storage.%s" $key) $file) }}
{{- end }}
{{- include "fairlead.checkCatalog" ($config.catalog | default dict) }}
{{- range $key, $file := pick ($config.catalog | default dict) "password_file" "token_file" "credential_file" "tls_ca" }}
{{- include "fairlead.checkFile" (list $root (printf "ingest.config.catalog.%s" $key) $file) }}
{{- end }}
{{- include "fairlead.checkSpark" (list . $jobs) }}
{{- $places := list }}
{{- $names := list }}
{{- range $job := $jobs }}
{{- if has .name $names }}
{{- fail (printf "%s.name: two pipelines are named %s" .where .name) }}
{{- end }}
{{- $names = append $names .name }}
{{- if not .topics }}
{{- fail (printf "%s.topics: required, but empty" .where) }}
{{- end }}
{{- range .topics }}
{{- if not (regexMatch "^[^/\\s]+/[^/\\s]+$" .) }}
{{- fail (printf "%s.topics: must be namespace/name, is %s" $job.where .) }}
{{- end }}
{{- end }}
{{- if ne (len .topics) (len (uniq .topics)) }}
{{- fail (printf "%s.topics: a topic is listed twice" .where) }}
{{- end }}
{{- include "fairlead.checkPlace" (dict "key" (printf "%s.table" .where) "place" .table "paths" $paths) }}
{{- include "fairlead.checkPlace" (dict "key" (printf "%s.checkpoint" .where) "place" .checkpoint "paths" $paths) }}
{{- include "fairlead.checkFormat" (list $root .) }}
{{- include "fairlead.checkFile" (list $root (printf "%s.schema" .config) .schema) }}
{{- range .transforms }}
{{- if regexMatch "\\.py:" . }}
{{- include "fairlead.checkFile" (list $root (printf "%s.transforms" $job.config) (regexReplaceAll ":[^:]*$" . "")) }}
{{- end }}
{{- end }}
{{- if and (eq (.format | default "envelope") "raw") (or .schema (gt (float64 (.dedupe_seconds | default 0)) 0.0)) }}
{{- fail (printf "%s.format: raw has no body for a contract (schema) and no producer for dedupe_seconds" .config) }}
{{- end }}
{{- $suffixes := list "" "_dead_letters" "_gaps" "_repairs" }}
{{- if .latest.key }}
{{- $suffixes = append $suffixes "_latest" }}
{{- end }}
{{- range $suffixes }}
{{- $places = append $places (dict "key" (printf "%s.table" $job.where) "table" true "path" (printf "%s%s" (trimSuffix "/" $job.table) .)) }}
{{- end }}
{{- $places = append $places (dict "key" (printf "%s.checkpoint" .where) "table" false "path" (trimSuffix "/" .checkpoint)) }}
{{- end }}
{{- range $i, $one := $places }}
{{- range $j, $other := $places }}
{{- if and (lt $i $j) (eq $one.path $other.path) }}
{{- fail (printf "%s: %s is already used by %s; give each table and checkpoint its own path" $other.key $other.path $one.key) }}
{{- else if and (ne $i $j) (hasPrefix (printf "%s/" $one.path) $other.path) }}
{{- /* What is hidden in a table no reader sees. */}}
{{- if not (and $one.table (regexMatch "^[_.]" (trimPrefix (printf "%s/" $one.path) $other.path))) }}
{{- fail (printf "%s: %s is inside %s (%s); use a path outside it" $other.key $other.path $one.path $one.key) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Fails unless this is the https address of a service; loopback may use http. Call with (list key address). */}}
{{- define "fairlead.checkStoreAddress" -}}
{{- with index . 1 }}
{{- if not (regexMatch "^(https://[^/@\\s]+(/[^@\\s]*)?|http://(127\\.[0-9.]+|localhost|\\[::1\\])(:[0-9]+)?(/[^@\\s]*)?)$" .) }}
{{- fail (printf "%s: must be https://host:port (http:// is for loopback), is %s" (index $ 0) (regexReplaceAll "//[^/]*@" . "//…@")) }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Checks the keys of the catalog together. */}}
{{- define "fairlead.checkCatalog" -}}
{{- $rest := eq (.type | default "sql") "rest" }}
{{- if regexMatch "^[^/]*//[^/]*:[^/]*@|[?&][^=&]*(?i:passw|pwd|secret|token)[^=&]*=" (.uri | default "") }}
{{- fail "ingest.config.catalog.uri: must not contain the password, because a ConfigMap would show it; mount a Secret with ingest.extraVolumes and set password_file to its file" }}
{{- else if and $rest .uri }}
{{- include "fairlead.checkStoreAddress" (list "ingest.config.catalog.uri" .uri) }}
{{- else if and .uri (regexMatch "^https?:" .uri) }}
{{- fail (printf "ingest.config.catalog.type: %s is a catalog of type rest" .uri) }}
{{- else if and .uri (not (regexMatch "^(sqlite|postgresql(\\+\\w+)?|mysql(\\+\\w+)?)://" .uri)) }}
{{- fail (printf "ingest.config.catalog.uri: must be sqlite:////data/catalog.db or postgresql+psycopg://user@host/database, is %s" .uri) }}
{{- end }}
{{- range $key := ternary (list "password_file") (list "token_file" "credential_file" "oauth2_uri" "oauth2_scope" "warehouse") $rest }}
{{- if get $ $key }}
{{- fail (printf "ingest.config.catalog.%s: does not apply to a catalog of type %s" $key (ternary "rest" "sql" $rest)) }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Checks what the table format supports. Call with (list $ job). */}}
{{- define "fairlead.checkFormat" -}}
{{- $root := index . 0 }}
{{- $catalog := ($root.Values.ingest.config | default dict).catalog | default dict }}
{{- with index . 1 }}
{{- if and (not .latest.key) (omit .latest "key") }}
{{- fail (printf "%s.latest.key: required if other keys of latest are set; name a column, for example [node]" .config) }}
{{- else if and .latest.key (ne .table_format "delta") }}
{{- fail (printf "%s.latest: is built from the log of a Delta table, which format %s does not have; use table_format=delta, or set latest: {key: []} for the pipeline" .config .table_format) }}
{{- end }}
{{- if eq .table_format "iceberg" }}
{{- if not $catalog.uri }}
{{- fail (printf "ingest.config.catalog.uri: %s.table_format=iceberg needs the address of a catalog" .config) }}
{{- end }}
{{- if not (regexMatch "^[A-Za-z0-9_-]{1,128}$" (base .table)) }}
{{- fail (printf "%s.table: its last part is the table's name in the catalog: letters, digits, _ and -, is %s" .where (base .table)) }}
{{- end }}
{{- if hasPrefix "sqlite:" $catalog.uri }}
{{- $file := trimPrefix "sqlite:///" $catalog.uri }}
{{- if not (include "fairlead.liesIn" (list $file (include "fairlead.ingestPaths" $root | fromYaml).paths)) }}
{{- fail (printf "ingest.config.catalog.uri: %s is not on a volume of the Pod, whose root file system is read-only; use sqlite:////data/catalog.db" $catalog.uri) }}
{{- end }}
{{- if and (eq $root.Values.ingest.persistence.type "emptyDir") (hasPrefix "/data/" (clean $file)) (hasPrefix "s3://" .table) }}
{{- fail (printf "ingest.config.catalog.uri: with ingest.persistence.type=emptyDir the catalog is deleted with the Pod, and %s can be found only through its catalog; use persistence.type=claim, or a catalog of type rest" .table) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Checks what Spark supports in this mode. Call with (list $ jobs). */}}
{{- define "fairlead.checkSpark" -}}
{{- $root := index . 0 }}
{{- $spark := ($root.Values.ingest.config | default dict).spark | default dict }}
{{- if include "fairlead.onExecutors" $root }}
{{- include "fairlead.checkDefaults" (list "ingest.spark.executors" ($root.Values.ingest.spark).executors) }}
{{- if or $spark.master $spark.remote }}
{{- fail (printf "ingest.config.spark.%s: must not be set with ingest.spark.mode=kubernetes, which sets its own master; remove it, or use ingest.spark.mode=local" (ternary "master" "remote" (not (empty $spark.master)))) }}
{{- end }}
{{- range index . 1 }}
{{- if and .table (not (hasPrefix "s3://" .table)) }}
{{- fail (printf "ingest.spark.mode=kubernetes: executors write tables and share no volume, so %s must be s3://bucket/path" .table) }}
{{- end }}
{{- if gt (float64 (.dedupe_seconds | default 0)) 0.0 }}
{{- fail "ingest.spark.mode=kubernetes: dedupe_seconds keeps its state in the checkpoint, a folder that executors cannot access; remove it (messaging drops repeats at publish), or use ingest.spark.mode=local" }}
{{- end }}
{{- end }}
{{- else if $spark.remote }}
{{- if or $spark.master $spark.driver_memory }}
{{- fail "ingest.config.spark.remote: must not be combined with master or driver_memory, which the server sets itself" }}
{{- end }}
{{- range index . 1 }}
{{- if hasPrefix "s3://" .checkpoint }}
{{- fail (printf "%s.checkpoint: must be a folder that the Connect server of spark.remote can also access, is %s" .where .checkpoint) }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Fails if --reuse-values has left out the defaults of new values. Call with (list key value). */}}
{{- define "fairlead.checkDefaults" -}}
{{- if not (index . 1) }}
{{- fail (printf "%s: is empty, because --reuse-values ignores new defaults; use --reset-then-reuse-values instead (Helm 3.14), or your values file" (index . 0)) }}
{{- end }}
{{- end -}}

{{/* Fails if the claims of a StatefulSet would change: the API server refuses that without naming a remedy. Call with (list $ "ingest"). */}}
{{- define "fairlead.checkClaims" -}}
{{- $root := index . 0 }}
{{- $name := printf "%s-%s" (include "fairlead.fullname" $root) (index . 1) }}
{{- with lookup "apps/v1" "StatefulSet" $root.Release.Namespace $name }}
{{- $held := ternary "claim" "emptyDir" (not (empty .spec.volumeClaimTemplates)) }}
{{- $wanted := (index $root.Values (index $ 1)).persistence.type }}
{{- if ne $held $wanted }}
{{- fail (printf "%s.persistence.type: is %s in this installation, and Kubernetes does not allow changing it in a StatefulSet. Keep it; or first run kubectl delete statefulset %s -n %s --cascade=orphan (Pod and volume stay), then repeat the upgrade%s" (index $ 1) $held $name $root.Release.Namespace (ternary (printf ". Data on the old volume is not copied to the new one; it stays in claim data-%s-0" $name) "" (eq $held "claim"))) }}
{{- end }}
{{- end }}
{{- end -}}
