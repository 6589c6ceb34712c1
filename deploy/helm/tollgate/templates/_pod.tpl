{{- /* The pod of the Deployment and of the StatefulSet. */ -}}
{{- define "tollgate.pod" -}}
metadata:
  labels:
    {{- include "tollgate.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    {{- /* The key `replicas` needs a restart. */}}
    tollgate/replicas: {{ .Values.replicaCount | quote }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  {{- if and .Values.tls.existingSecret (ne .Values.tls.serverName "localhost") }}
  {{- /* The probes call the pod itself by the name in its certificate. */}}
  hostAliases:
    - ip: 127.0.0.1
      hostnames: [{{ .Values.tls.serverName | quote }}]
  {{- end }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile:
      type: RuntimeDefault
  topologySpreadConstraints:
    {{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
    - maxSkew: 1
      topologyKey: {{ $key }}
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "tollgate.selector" $ | nindent 10 }}
    {{- end }}
  affinity:
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 100
          podAffinityTerm:
            topologyKey: kubernetes.io/hostname
            labelSelector:
              matchLabels:
                {{- include "tollgate.selector" . | nindent 16 }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: tollgate
      image: {{ include "tollgate.image" . | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args:
        - serve
        - --config=/etc/tollgate/config/tollgate.toml
        - --listen=0.0.0.0:50051
        {{- if eq .Values.engine "embedded" }}
        - --engine=embedded
        - --data-dir=/var/lib/tollgate/data
        {{- end }}
        {{- if .Values.metrics.enabled }}
        - --admin=0.0.0.0:50052
        {{- end }}
        {{- if .Values.tls.existingSecret }}
        - --tls-cert=/etc/tollgate/tls/tls.crt
        - --tls-key=/etc/tollgate/tls/tls.key
        {{- if ne .Values.tls.clientAuth "off" }}
        - --tls-client-ca=/etc/tollgate/tls/ca.crt
        - --tls-client-auth={{ .Values.tls.clientAuth }}
        {{- end }}
        {{- end }}
      env:
        - name: TOLLGATE_LOG_FORMAT
          value: json
        {{- if eq .Values.engine "redis" }}
        - name: TOLLGATE_ENGINE
          {{- if .Values.redis.existingSecret }}
          valueFrom:
            secretKeyRef:
              name: {{ .Values.redis.existingSecret }}
              key: {{ .Values.redis.secretKey }}
          {{- else }}
          value: {{ .Values.redis.url | quote }}
          {{- end }}
        {{- end }}
      ports:
        - name: grpc
          containerPort: 50051
        {{- if .Values.metrics.enabled }}
        - name: metrics
          containerPort: 50052
        {{- end }}
      # Liveness does not depend on Redis: a restart would not help.
      livenessProbe:
        {{- include "tollgate.probe" (dict "root" . "service" "tollgate.liveness") | nindent 8 }}
        failureThreshold: 6
      readinessProbe:
        {{- include "tollgate.probe" (dict "root" . "service" "") | nindent 8 }}
        failureThreshold: 2
      # A large data directory takes seconds to load.
      startupProbe:
        {{- include "tollgate.probe" (dict "root" . "service" "tollgate.liveness") | nindent 8 }}
        failureThreshold: 60
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        capabilities:
          drop: [ALL]
      volumeMounts:
        # No subPath: with it, changes would not reach the server.
        - name: config
          mountPath: /etc/tollgate/config
          readOnly: true
        {{- if .Values.tls.existingSecret }}
        - name: tls
          mountPath: /etc/tollgate/tls
          readOnly: true
        {{- end }}
        {{- if eq .Values.engine "embedded" }}
        - name: data
          mountPath: /var/lib/tollgate
        {{- end }}
  volumes:
    - name: config
      {{- if .Values.existingConfigSecret }}
      secret:
        secretName: {{ .Values.existingConfigSecret }}
        defaultMode: 0440
      {{- else }}
      configMap:
        name: {{ include "tollgate.fullname" . }}
      {{- end }}
    {{- if .Values.tls.existingSecret }}
    - name: tls
      secret:
        secretName: {{ .Values.tls.existingSecret }}
        defaultMode: 0440
    {{- end }}
{{- end -}}
