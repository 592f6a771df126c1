{{- define "pgweir.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end }}
{{- end }}

{{- define "pgweir.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "pgweir.labels" -}}
{{ include "pgweir.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* A number from a file of values is a float: 1000000 must not become 1e+06. */}}
{{- define "pgweir.value" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) }}{{ int64 . }}{{ else }}{{ . }}{{ end }}
{{- end }}

{{- define "pgweir.ini" -}}
[databases]
{{- range $name, $entry := .Values.databases }}
{{ if eq $name "*" }}*{{ else }}"{{ replace "\"" "\"\"" $name }}"{{ end }} = {{ $entry }}
{{- end }}
{{- range $section, $lines := .Values.sections }}

[{{ $section }}]
{{ trim $lines }}
{{- end }}

[pgbouncer]
{{- range $name, $value := .Values.settings }}
{{ $name }} = {{ include "pgweir.value" $value }}
{{- end }}
listen_addr = *
listen_port = 6432
unix_socket_dir = /run/pgweir
auth_file = /etc/pgweir/users/userlist.txt
{{- with .Values.secrets }}
{{- if .clientTls }}
client_tls_cert_file = /etc/pgweir/client-tls/tls.crt
client_tls_key_file = /etc/pgweir/client-tls/tls.key
{{- end }}
{{- if .serverCa }}
server_tls_ca_file = /etc/pgweir/server-ca/ca.crt
{{- end }}
{{- if .peers }}
peers_dns = {{ include "pgweir.name" $ }}-peers.{{ $.Release.Namespace }}.svc:6432
peers_secret_file = /etc/pgweir/peers/secret
{{- end }}
{{- end }}
{{- if .Values.metrics.enabled }}
metrics_listen = 0.0.0.0:9127
metrics_allow = {{ .Values.metrics.allow }}
{{- end }}
shutdown_accept = {{ .Values.shutdown.accept }}s
shutdown_drain = {{ .Values.shutdown.drain }}s
{{ end }}
