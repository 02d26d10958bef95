{{- /* A variable from a Secret; call with (list name secret key). */ -}}
{{- define "osmo.fromSecret" -}}
- name: {{ index . 0 }}
  valueFrom: {secretKeyRef: {name: {{ index . 1 | quote }}, key: {{ index . 2 | quote }}}}
{{ end }}

{{- /* A host as an address has it: one of IPv6 stands in brackets. */ -}}
{{- define "osmo.inAddress" -}}
{{ if contains ":" . }}[{{ . }}]{{ else }}{{ . }}{{ end }}
{{- end }}

{{- /* The address of PostgreSQL without user and password; call with (list root host port). */ -}}
{{- define "osmo.databaseUrl" -}}
{{- $root := index . 0 -}}
{{- $mode := $root.Values.database.sslMode -}}
postgresql://{{ include "osmo.inAddress" (index . 1) }}:{{ index . 2 }}/{{ $root.Values.database.name | urlquery }}
{{- if $mode }}?sslmode={{ $mode }}{{ if and (hasPrefix "verify" $mode) (include "osmo.caFile" $root) }}&sslrootcert={{ include "osmo.caFile" $root }}{{ end }}{{ end }}
{{- end }}

{{- define "osmo.caFile" -}}
{{- with .Values.caBundle }}{{ if or .configMap .secret }}/etc/osmo-topology/ca/{{ .key }}{{ end }}{{ end }}
{{- end }}

{{- /* How to reach PostgreSQL; call with (list root direct), direct being past a pooler. */ -}}
{{- define "osmo.databaseEnv" -}}
{{- $root := index . 0 }}{{ $direct := index . 1 }}{{ $db := $root.Values.database }}
{{- $quick := printf "%s-quickstart" (include "osmo.fullname" $root) }}
{{- if $root.Values.quickstart.enabled }}
- {name: OSMO_DATABASE_URL, value: {{ printf "postgresql://%s-postgresql:5432/osmo" (include "osmo.fullname" $root) | quote }}}
- {name: OSMO_DATABASE_USER, value: osmo}
{{ include "osmo.fromSecret" (list "OSMO_DATABASE_PASSWORD" $quick "postgresql-password") }}
{{- else if $db.host }}
{{- $host := ternary ($db.direct.host | default $db.host) $db.host $direct }}
{{- $port := ternary (ternary $db.direct.port $db.port (ne $db.direct.host "")) $db.port $direct }}
- {name: OSMO_DATABASE_URL, value: {{ include "osmo.databaseUrl" (list $root $host (int $port)) | quote }}}
{{ include "osmo.fromSecret" (list "OSMO_DATABASE_USER" $db.existingSecret $db.userKey) }}
{{- include "osmo.fromSecret" (list "OSMO_DATABASE_PASSWORD" $db.existingSecret $db.passwordKey) }}
{{- else }}
{{ include "osmo.fromSecret" (list "OSMO_DATABASE_URL" $db.existingSecret (ternary ($db.direct.urlKey | default $db.urlKey) $db.urlKey $direct)) }}
{{- end }}
{{- end }}

{{- define "osmo.redisEnv" -}}
{{- $redis := .Values.redis }}
{{- if .Values.quickstart.enabled }}
- {name: OSMO_REDIS_URL, value: {{ printf "redis://%s-redis:6379/0" (include "osmo.fullname" .) | quote }}}
{{- else if $redis.host }}
{{- $ca := include "osmo.caFile" . }}
{{- $tls := ternary (printf "?ssl_cert_reqs=required%s" (ternary (printf "&ssl_ca_certs=%s" $ca) "" (ne $ca ""))) "" $redis.tls }}
- {name: OSMO_REDIS_URL, value: {{ printf "%s://%s:%d/%d%s" (ternary "rediss" "redis" $redis.tls) (include "osmo.inAddress" $redis.host) (int $redis.port) (int $redis.database) $tls | quote }}}
{{- with $redis.userKey }}
{{ include "osmo.fromSecret" (list "OSMO_REDIS_USER" $redis.existingSecret .) }}
{{- end }}
{{- with $redis.passwordKey }}
{{ include "osmo.fromSecret" (list "OSMO_REDIS_PASSWORD" $redis.existingSecret .) }}
{{- end }}
{{- else }}
{{ include "osmo.fromSecret" (list "OSMO_REDIS_URL" $redis.existingSecret $redis.urlKey) }}
{{- end }}
{{- end }}

{{- define "osmo.hosts" -}}
{{- $web := printf "%s-web" (include "osmo.fullname" .) -}}
{{- concat (list (include "osmo.host" .) $web (printf "%s.%s" $web .Release.Namespace) (printf "%s.%s.svc" $web .Release.Namespace)) .Values.extraHosts | uniq | toJson -}}
{{- end }}

{{- /* The variables that follow from other values; call with (list root direct). */ -}}
{{- define "osmo.ownEnv" -}}
{{- $root := index . 0 }}{{ $values := $root.Values }}
- {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
- {name: OSMO_ENV, value: production}
{{ include "osmo.fromSecret" (list "OSMO_SECRET_KEY" (include "osmo.secret" (list $root $values.secretKey.existingSecret)) $values.secretKey.key) }}
{{- include "osmo.databaseEnv" . }}
{{- include "osmo.redisEnv" $root }}
- {name: OSMO_SERVICE_URL, value: {{ $values.url | quote }}}
- {name: OSMO_ALLOWED_HOSTS, value: {{ include "osmo.hosts" $root | quote }}}
- {name: OSMO_CSRF_TRUSTED_ORIGINS, value: {{ list $values.url | toJson | quote }}}
- {name: OSMO_READY_AFTER_WORKERS, value: "true"}
- {name: OSMO_METRICS_HOST, value: $(POD_IP)}
- {name: OSMO_METRICS_PORT, value: "9100"}
- {name: OSMO_METRICS_PREFIX, value: {{ $values.metrics.prefix }}}
{{- if $values.startBarrier.enabled }}
- {name: OSMO_BARRIER_IMAGE, value: {{ $values.startBarrier.image | default (include "osmo.image" $root) | quote }}}
{{- end }}
{{- with $values.metrics.existingSecret }}
{{ include "osmo.fromSecret" (list "OSMO_METRICS_TOKEN" . $values.metrics.key) }}
{{- end }}
{{- with $values.logs.store }}
- {name: OSMO_LOG_STORE, value: {{ . | quote }}}
{{- end }}
{{- with $values.logs.endpoint }}
- {name: OSMO_LOG_ENDPOINT, value: {{ . | quote }}}
{{- end }}
{{- with include "osmo.caFile" $root }}
- {name: SSL_CERT_FILE, value: {{ . }}}
- {name: AWS_CA_BUNDLE, value: {{ . }}}
- {name: OSMO_OIDC_CA_FILE, value: {{ . }}}
{{- end }}
{{- end }}

{{- /* The variables of every process; call with (list root direct). */ -}}
{{- define "osmo.env" -}}
{{- include "osmo.ownEnv" . }}
{{- range $name, $value := (index . 0).Values.settings }}
- {name: {{ $name }}, value: {{ include "osmo.text" $value | quote }}}
{{- end }}
{{- range (index . 0).Values.secretSettings }}
{{ include "osmo.fromSecret" (list .name .existingSecret .key) }}
{{- end }}
{{- end }}

{{- /* A value as a variable has it: numbers without an exponent, lists and maps as JSON. */ -}}
{{- define "osmo.text" -}}
{{- if kindIs "float64" . }}{{ if eq (floor .) . }}{{ int64 . }}{{ else }}{{ . }}{{ end }}
{{- else if or (kindIs "slice" .) (kindIs "map" .) }}{{ toJson . }}{{ else }}{{ . }}{{ end }}
{{- end }}
