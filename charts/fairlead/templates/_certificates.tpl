{{/* Names and addresses a room's certificate serves, as YAML {dns: [], addresses: []}. Call with (list $ "hub" hosts); a
room of "" has no Service. */}}
{{- define "fairlead.certificateNames" -}}
{{- $root := index . 0 -}}
{{- $room := index . 1 -}}
{{- $addresses := list -}}
{{- $names := list -}}
{{- if $room -}}
{{- $service := printf "%s-%s" (include "fairlead.fullname" $root) $room -}}
{{- $namespace := $root.Release.Namespace -}}
{{- $addresses = list "127.0.0.1" -}}
{{- $names = list "localhost" $service (printf "%s.%s" $service $namespace) (printf "%s.%s.svc" $service $namespace) (printf "%s.%s.svc.cluster.local" $service $namespace) -}}
{{- end -}}
{{- range index . 2 -}}
{{- if regexMatch "^([0-9.]+|[0-9a-fA-F]*:[0-9a-fA-F:.]+)$" . -}}{{ $addresses = append $addresses . }}{{- else -}}{{ $names = append $names . }}{{- end -}}
{{- end -}}
{{- toYaml (dict "dns" $names "addresses" $addresses) -}}
{{- end -}}

{{/* Who issues with cert-manager: an Issuer of yours, or the one made here. Call with (list $ "edge"). */}}
{{- define "fairlead.issuerRef" -}}
{{- $root := index . 0 -}}
{{- $half := default dict (index (default dict $root.Values.certificates.certManager) (index . 1)) -}}
{{- if ($half.issuerRef).name -}}
name: {{ $half.issuerRef.name }}
kind: {{ default "Issuer" $half.issuerRef.kind }}
group: {{ default "cert-manager.io" $half.issuerRef.group }}
{{- else -}}
name: {{ include "fairlead.fullname" $root }}-{{ index . 1 }}
kind: Issuer
group: cert-manager.io
{{- end -}}
{{- end -}}

{{/* Where the hub's Pod finds the certificate of the nodes' authority beside its own files, as sources of a projected
volume; only that, never the key beside it. */}}
{{- define "fairlead.linkTrust" -}}
{{- $half := default dict (default dict .Values.certificates.certManager).edge -}}
{{- if ($half.issuerRef).name -}}
{{- $trust := $half.trust -}}
- {{ ternary "configMap" "secret" (eq (default "Secret" $trust.kind) "ConfigMap") }}:
    name: {{ $trust.name }}
    items: [{key: {{ default "ca.crt" $trust.key }}, path: link.crt}]
{{- else -}}
- secret:
    name: {{ include "fairlead.fullname" . }}-authority-edge
    items: [{key: tls.crt, path: link.crt}]
{{- end -}}
{{- end -}}

{{/* Who signs node certificates: files, cert-manager, off; "" if an upgrade reuses values of an older version. */}}
{{- define "fairlead.signer" -}}
{{- with .Values.hub.identity -}}
{{- .signer | default (get (dict "chart" "files" "cert-manager" "cert-manager" "existing" "off") $.Values.certificates.source) -}}
{{- end -}}
{{- end -}}

{{- define "fairlead.signingSecret" -}}
{{- (default dict .Values.hub.identity).authoritySecret | default (printf "%s-authority-edge" (include "fairlead.fullname" .)) -}}
{{- end -}}

{{/* The address at which devices connect to the hub: from the values, or derived from them if possible. */}}
{{- define "fairlead.hubUrl" -}}
{{- $service := .Values.hub.service -}}
{{- $given := (default dict .Values.hub.identity).url -}}
{{- if $given -}}
{{- $given -}}
{{- else if eq $service.type "ClusterIP" -}}
{{- printf "wss://%s-hub.%s.svc:%v" (include "fairlead.fullname" .) .Release.Namespace $service.port -}}
{{- else if .Values.hub.hosts -}}
{{- $port := ternary $service.nodePort $service.port (eq $service.type "NodePort") -}}
{{- $host := first .Values.hub.hosts -}}
{{- if $port -}}
{{- printf "wss://%s:%v" (ternary (printf "[%s]" $host) $host (contains ":" $host)) $port -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* [identity] of hub.toml, as YAML. */}}
{{- define "fairlead.identity" -}}
{{- $made := dict -}}
{{- $signer := include "fairlead.signer" . -}}
{{- if ne .Values.certificates.source "existing" -}}
{{- $_ := set $made "link_ca" "/etc/fairlead/tls/link.crt" -}}
{{- else if eq $signer "files" -}}
{{- $_ := set $made "link_ca" "/etc/fairlead/authority/tls.crt" -}}
{{- end -}}
{{- with .Values.hub.identity -}}
{{- $_ := set $made "signer" $signer -}}
{{- if ne $signer "off" -}}
{{- $_ := set $made "certificate_days" (int .certificateDays) -}}
{{- $_ := set $made "late_days" (int .lateDays) -}}
{{- $_ := set $made "installation" .installation -}}
{{- with include "fairlead.hubUrl" $ -}}
{{- $_ := set $made "url" . -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if eq $signer "files" -}}
{{- $_ := set $made "ca_cert" "/etc/fairlead/authority/tls.crt" -}}
{{- $_ := set $made "ca_key" "/etc/fairlead/authority/tls.key" -}}
{{- else if eq $signer "cert-manager" -}}
{{- $issuer := include "fairlead.issuerRef" (list . "edge") | fromYaml -}}
{{- if and (ne .Values.certificates.source "cert-manager") (not .Values.hub.config.identity) -}}
{{- fail "hub.identity.signer=cert-manager needs certificates.source=cert-manager, or hub.config.identity.issuer" -}}
{{- end -}}
{{- if ne $issuer.group "cert-manager.io" -}}
{{- fail "the hub requests certificates only from Issuers and ClusterIssuers of cert-manager.io: use another edge.issuerRef, or set hub.identity.signer=off" -}}
{{- end -}}
{{- $_ := set $made "issuer" (ternary $issuer.name (printf "%s/%s" $issuer.kind $issuer.name) (eq $issuer.kind "Issuer")) -}}
{{- end -}}
{{- if $made -}}{{ toYaml $made }}{{- end -}}
{{- end -}}

{{/* Certificates in one file. Call with (list one another); another may be empty. */}}
{{- define "fairlead.bundle" -}}
{{- $first := index . 0 -}}
{{- $second := default "" (index . 1) | trim -}}
{{- if $second -}}{{ printf "%s\n%s\n" (trimSuffix "\n" $first) $second }}{{- else -}}{{ $first }}{{- end -}}
{{- end -}}
