{{- define "osmo.fullname" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" (.Release.Name | trunc 26 | trimSuffix "-") .Chart.Name }}{{ end }}
{{- end }}

{{- /* What selects the pods of a component; call with (list root component). */ -}}
{{- define "osmo.selector" -}}
app.kubernetes.io/name: {{ (index . 0).Chart.Name }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name | quote }}
{{- if index . 1 }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}
{{- end }}

{{- define "osmo.labels" -}}
{{- $root := index . 0 -}}
{{ include "osmo.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: {{ $root.Chart.Name }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name ($root.Chart.Version | replace "+" "_") }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "osmo.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- /* The host of url, without its port. */ -}}
{{- define "osmo.host" -}}
{{ (urlParse .Values.url).host | splitList ":" | first }}
{{- end }}

{{- /* The name of a Secret: the administrator's, or that of the quickstart. Call with (list root name). */ -}}
{{- define "osmo.secret" -}}
{{ index . 1 | default (printf "%s-quickstart" (include "osmo.fullname" (index . 0))) }}
{{- end }}
