{{- /* Volumes and their mounts, by component; call with (list root component). */ -}}
{{- define "osmo.mounts" -}}
{{- $root := index . 0 }}{{ $component := index . 1 }}{{ $values := $root.Values }}
- {name: tmp, mountPath: /tmp}
{{- if and (has $component (list "web" "worker")) (not $values.logs.store) }}
- {name: logs, mountPath: /var/lib/osmo-topology}
{{- end }}
{{- if include "osmo.caFile" $root }}
- {name: ca, mountPath: /etc/osmo-topology/ca, readOnly: true}
{{- end }}
{{- if and $values.configuration.enabled (ne $component "jobs") }}
- {name: configuration, mountPath: /etc/osmo-topology/configuration, readOnly: true}
{{- end }}
{{- if has $component (list "web" "worker" "observer") }}
{{- range $values.remoteClusters }}
- {name: cluster-{{ .name }}, mountPath: /etc/osmo-topology/clusters/{{ .name }}, readOnly: true}
{{- end }}
{{- end }}
{{- with (index $values $component).extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "osmo.volumes" -}}
{{- $root := index . 0 }}{{ $component := index . 1 }}{{ $values := $root.Values }}
- {name: tmp, emptyDir: {medium: Memory, sizeLimit: 256Mi}}
{{- if and (has $component (list "web" "worker")) (not $values.logs.store) }}
{{- if or $values.logs.existingClaim $values.logs.newClaim.enabled }}
- {name: logs, persistentVolumeClaim: {claimName: {{ $values.logs.existingClaim | default (printf "%s-logs" (include "osmo.fullname" $root)) | quote }}}}
{{- else }}
- {name: logs, emptyDir: {}}
{{- end }}
{{- end }}
{{- if include "osmo.caFile" $root }}
- name: ca
  {{- with $values.caBundle }}
  {{- if .configMap }}
  configMap: {name: {{ .configMap | quote }}}
  {{- else }}
  secret: {secretName: {{ .secret | quote }}}
  {{- end }}
  {{- end }}
{{- end }}
{{- if and $values.configuration.enabled (ne $component "jobs") }}
- {name: configuration, configMap: {name: {{ $values.configuration.existingConfigMap | default (printf "%s-configuration" (include "osmo.fullname" $root)) | quote }}}}
{{- end }}
{{- if has $component (list "web" "worker" "observer") }}
{{- range $values.remoteClusters }}
- name: cluster-{{ .name }}
  secret:
    secretName: {{ .existingSecret | quote }}
    items: [{key: {{ index .keys $component | quote }}, path: kubeconfig}]
{{- end }}
{{- end }}
{{- with (index $values $component).extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "osmo.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- /* Call with (list root user); without runAsUser the cluster chooses the user, as OpenShift does. */ -}}
{{- define "osmo.podSecurity" -}}
runAsNonRoot: true
{{- if (index . 0).Values.runAsUser }}
{{- $user := int (index . 1) }}
runAsUser: {{ $user }}
runAsGroup: {{ $user }}
fsGroup: {{ $user }}
fsGroupChangePolicy: OnRootMismatch
{{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- /* The environment of a container; call with (list root component direct more). */ -}}
{{- define "osmo.containerEnv" -}}
{{- $root := index . 0 }}{{ $component := index . 1 -}}
env:
  {{- include "osmo.env" (list $root (index . 2)) | nindent 2 }}
  {{- if and $root.Values.configuration.enabled (ne $component "jobs") }}
  - {name: OSMO_TOPOLOGY_CONFIG_FILE, value: /etc/osmo-topology/configuration/config.yaml}
  {{- end }}
  {{- with index . 3 }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- with (index $root.Values $component).extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- if and $root.Values.logs.existingSecret (has $component (list "web" "worker")) }}
envFrom: [{secretRef: {name: {{ $root.Values.logs.existingSecret | quote }}}}]
{{- end }}
{{- end }}

{{- /* Labels and annotations of pods; call with (list root component name). */ -}}
{{- define "osmo.podMetadata" -}}
{{- $root := index . 0 }}{{ $own := index $root.Values (index . 1) -}}
labels:
  {{- include "osmo.labels" (list $root (index . 2)) | nindent 2 }}
  {{- with $own.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- $secrets := include "osmo.secretsMade" $root }}
{{- if or $own.podAnnotations $secrets }}
annotations:
  {{- with $own.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- with $secrets }}
  checksum/secrets: {{ sha256sum . }} # another one starts the pods again
  {{- end }}
{{- end }}
{{- end }}

{{- /* What decides the Secrets that the release makes itself; nothing where it makes none. */ -}}
{{- define "osmo.secretsMade" -}}
{{- if .Values.quickstart.enabled }}{{ .Values.quickstart.password }}{{ end }}
{{- range .Values.extraObjects }}{{ if eq (toString .kind) "Secret" }}{{ tpl (toYaml .) $ }}{{ end }}{{ end }}
{{- end }}

{{- /* How many replicas of a process there are at least; call with (list root component). */ -}}
{{- define "osmo.replicas" -}}
{{- $own := index (index . 0).Values (index . 1) -}}
{{- if and (eq (index . 1) "web") $own.autoscaling.enabled }}{{ $own.autoscaling.minReplicas }}{{ else }}{{ dig "replicas" 1 $own }}{{ end }}
{{- end }}

{{- /* What pods of every component share; call with (list root component). */ -}}
{{- define "osmo.podSpec" -}}
{{- $root := index . 0 }}{{ $component := index . 1 }}{{ $own := index $root.Values $component -}}
enableServiceLinks: false
securityContext:
  {{- include "osmo.podSecurity" (list $root $root.Values.runAsUser) | nindent 2 }}
{{- with $root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - {name: {{ . | quote }}}
  {{- end }}
{{- end }}
{{- range $field := list "nodeSelector" "tolerations" "affinity" }}
{{- with index $own $field }}
{{ $field }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- with $own.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
volumes:
  {{- include "osmo.volumes" . | nindent 2 }}
{{- end }}

{{- /* A Deployment; call with a dict of root, component, command, port, path and account. */ -}}
{{- define "osmo.deployment" -}}
{{- $root := .root }}{{ $component := .component }}{{ $own := index $root.Values $component }}
{{- $replicas := int (include "osmo.replicas" (list $root $component)) -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "osmo.fullname" $root }}-{{ $component }}
  namespace: {{ $root.Release.Namespace | quote }}
  labels:
    {{- include "osmo.labels" (list $root $component) | nindent 4 }}
spec:
  {{- if not (and (eq $component "web") $own.autoscaling.enabled) }}
  replicas: {{ $replicas }}
  {{- end }}
  revisionHistoryLimit: 5
  strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}
  selector:
    matchLabels:
      {{- include "osmo.selector" (list $root $component) | nindent 6 }}
  template:
    metadata:
      {{- include "osmo.podMetadata" (list $root $component $component) | nindent 6 }}
    spec:
      {{- include "osmo.podSpec" (list $root $component) | nindent 6 }}
      serviceAccountName: {{ include "osmo.fullname" $root }}-{{ $component }}
      automountServiceAccountToken: {{ .cluster }}
      terminationGracePeriodSeconds: {{ $own.graceSeconds }}
      {{- if gt $replicas 1 }}
      topologySpreadConstraints:
        {{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
        - maxSkew: 1
          topologyKey: {{ $key }}
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "osmo.selector" (list $root $component) | nindent 14 }}
        {{- end }}
      {{- end }}
      containers:
        - name: {{ $component }}
          image: {{ include "osmo.image" $root | quote }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          command: {{ .command | toJson }}
          {{- include "osmo.containerEnv" (list $root $component false "") | nindent 10 }}
          ports: [{name: {{ .port }}, containerPort: {{ ternary 8000 9100 (eq .port "http") }}}]
          startupProbe: {httpGet: {path: /livez, port: {{ .port }}}, periodSeconds: 5, timeoutSeconds: 5, failureThreshold: 60}
          livenessProbe: {httpGet: {path: /livez, port: {{ .port }}}, periodSeconds: 20, timeoutSeconds: 10, failureThreshold: 3}
          readinessProbe: {httpGet: {path: {{ .ready }}, port: {{ .port }}}, periodSeconds: 5, timeoutSeconds: 5, failureThreshold: 2}
          {{- if eq .port "http" }}
          lifecycle: {preStop: {exec: {command: [sleep, "5"]}}} # until nobody sends it requests any more
          {{- end }}
          resources:
            {{- toYaml $own.resources | nindent 12 }}
          securityContext:
            {{- include "osmo.restricted" . | nindent 12 }}
          volumeMounts:
            {{- include "osmo.mounts" (list $root $component) | nindent 12 }}
{{- end }}

{{- /* A Job; call with a dict of root, name, command, hook, weight, direct and env. */ -}}
{{- define "osmo.job" -}}
{{- $root := .root }}{{ $own := $root.Values.jobs -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ include "osmo.fullname" $root }}-{{ .name }}{{ if not .hook }}-{{ $root.Release.Revision }}{{ end }}
  namespace: {{ $root.Release.Namespace | quote }}
  labels:
    {{- include "osmo.labels" (list $root .name) | nindent 4 }}
  {{- with .hook }}
  annotations:
    helm.sh/hook: {{ . }}
    helm.sh/hook-weight: "0"
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
  {{- end }}
spec:
  backoffLimit: {{ .tries }}
  activeDeadlineSeconds: {{ .seconds }}
  podFailurePolicy: # 78: refused, and another attempt would be
    rules: [{action: FailJob, onExitCodes: {containerName: {{ .name }}, operator: In, values: [78]}}]
  template:
    metadata:
      {{- include "osmo.podMetadata" (list $root "jobs" .name) | nindent 6 }}
    spec:
      {{- include "osmo.podSpec" (list $root "jobs") | nindent 6 }}
      serviceAccountName: {{ include "osmo.fullname" $root }}-jobs
      automountServiceAccountToken: false
      restartPolicy: Never # a pod that is restarted is deleted after its last try, and its log with it
      containers:
        - name: {{ .name }}
          image: {{ include "osmo.image" $root | quote }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          command: {{ .command | toJson }}
          {{- include "osmo.containerEnv" (list $root "jobs" .direct .env) | nindent 10 }}
          terminationMessagePolicy: FallbackToLogsOnError
          resources:
            {{- toYaml $own.resources | nindent 12 }}
          securityContext:
            {{- include "osmo.restricted" . | nindent 12 }}
          volumeMounts:
            {{- include "osmo.mounts" (list $root "jobs") | nindent 12 }}
{{- end }}
