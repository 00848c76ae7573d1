{{/*
A map as TOML: plain keys first, then tables, then arrays of tables. Call with (list map "").
Not Helm's toToml: numbers of stored values come back as floats there, and 604800.0 is no whole number to a program.
JSON text and JSON arrays of scalars are TOML as they stand.
*/}}
{{- define "fairlead-edge.toml" -}}
{{- $map := index . 0 -}}
{{- $path := index . 1 -}}
{{- range $key, $value := $map }}
{{- if not (or (kindIs "map" $value) (kindIs "invalid" $value) (and (kindIs "slice" $value) $value (kindIs "map" (first $value)))) }}
{{ include "fairlead-edge.tomlKey" $key }} = {{ $value | toJson }}
{{- end }}
{{- end }}
{{- range $key, $value := $map }}
{{- if kindIs "map" $value }}

[{{ $path }}{{ include "fairlead-edge.tomlKey" $key }}]
{{- include "fairlead-edge.toml" (list $value (printf "%s%s." $path (include "fairlead-edge.tomlKey" $key))) }}
{{- else if and (kindIs "slice" $value) $value (kindIs "map" (first $value)) }}
{{- range $value }}

[[{{ $path }}{{ include "fairlead-edge.tomlKey" $key }}]]
{{- include "fairlead-edge.toml" (list . (printf "%s%s." $path (include "fairlead-edge.tomlKey" $key))) }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "fairlead-edge.tomlKey" -}}
{{- if regexMatch "^[A-Za-z0-9_-]+$" . }}{{ . }}{{ else }}{{ . | toJson }}{{ end -}}
{{- end -}}
