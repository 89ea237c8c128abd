{{- define "kokoro.labels" -}}
app.kubernetes.io/name: kokoro-server
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "kokoro.selector" -}}
app.kubernetes.io/name: kokoro-server
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* The user of the images, and nothing that the processes do not need. */}}
{{- define "kokoro.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "kokoro.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}
