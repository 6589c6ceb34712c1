{{- define "tollgate.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 53 | trimSuffix "-" -}}
{{- end -}}

{{- define "tollgate.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 53 | trimSuffix "-" -}}
{{- else if contains (include "tollgate.name" .) .Release.Name -}}
{{- .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "tollgate.name" .) | trunc 53 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "tollgate.selector" -}}
app.kubernetes.io/name: {{ include "tollgate.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tollgate.labels" -}}
{{ include "tollgate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "tollgate.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}

{{- /* Fails for values that make no usable server. */ -}}
{{- define "tollgate.validate" -}}
{{- if and (eq .Values.engine "embedded") (gt (int .Values.replicaCount) 1) -}}
{{- fail "engine `embedded` keeps its state in one server: set replicaCount to 1, or engine to redis" -}}
{{- end -}}
{{- if and (eq .Values.engine "redis") (not .Values.redis.url) (not .Values.redis.existingSecret) -}}
{{- fail "engine `redis` needs redis.url or redis.existingSecret" -}}
{{- end -}}
{{- if and .Values.config .Values.existingConfigSecret -}}
{{- fail "set config or existingConfigSecret, not both" -}}
{{- end -}}
{{- if and .Values.metrics.enabled (not .Values.existingConfigSecret) -}}
{{- fail "metrics.enabled needs existingConfigSecret with a [[caller]] that may read: the listener requires a token" -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.enabled) -}}
{{- fail "metrics.serviceMonitor.enabled needs metrics.enabled" -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.serviceMonitor.tokenSecret) -}}
{{- fail "metrics.serviceMonitor.enabled needs metrics.serviceMonitor.tokenSecret" -}}
{{- end -}}
{{- if and (ne .Values.tls.clientAuth "off") (not .Values.tls.existingSecret) -}}
{{- fail "tls.clientAuth needs tls.existingSecret" -}}
{{- end -}}
{{- end -}}

{{- /* A probe of health; the argument has the root and the name of the service. */ -}}
{{- define "tollgate.probe" -}}
{{- $values := .root.Values -}}
{{- if $values.tls.existingSecret -}}
{{- /* The kubelet's gRPC probe cannot do TLS. */ -}}
exec:
  command:
    - /usr/local/bin/tollgate
    - health
    - --timeout=2s
    - --server=https://{{ $values.tls.serverName }}:50051
    - --tls-ca=/etc/tollgate/tls/ca.crt
    {{- if eq $values.tls.clientAuth "required" }}
    - --tls-cert=/etc/tollgate/tls/tls.crt
    - --tls-key=/etc/tollgate/tls/tls.key
    {{- end }}
    - --service={{ .service }}
{{- else -}}
grpc:
  port: 50051
  service: {{ .service | quote }}
{{- end }}
periodSeconds: 5
timeoutSeconds: 3
{{- end -}}
