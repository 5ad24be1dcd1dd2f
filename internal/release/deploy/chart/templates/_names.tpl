{{- define "sojourn.name" -}}
{{- if contains "sojourn" .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{ else }}{{ printf "%s-sojourn" .Release.Name | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "sojourn.selector" -}}
app.kubernetes.io/name: sojourn
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sojourn.labels" -}}
{{ include "sojourn.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "sojourn.pod" -}}
metadata:
  labels:
    {{- include "sojourn.labels" . | nindent 4 }}
  {{- with .Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  automountServiceAccountToken: false
  enableServiceLinks: false
  # Longer than the settings notice and grace together.
  terminationGracePeriodSeconds: 60
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile:
      type: RuntimeDefault
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: sojourn
      image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: ["serve"]
      ports:
        - name: http
          containerPort: 7575
      env:
        - name: SOJOURN_ADDR
          value: "0.0.0.0:7575"
        - name: SOJOURN_REQUIRE_TOKEN
          value: "true"
        # Longer than it takes until the endpoints of a Service no longer name a pod that ends.
        - name: SOJOURN_NOTICE
          value: "10s"
        - name: SOJOURN_LOG
          value: "json"
        {{- if eq .Values.store.type "postgres" }}
        - name: SOJOURN_MIGRATE
          value: {{ .Values.store.postgres.migrate | quote }}
        - name: SOJOURN_URL
          valueFrom:
            secretKeyRef:
              name: {{ required "store.postgres.secretName names no Secret with the URL of the database" .Values.store.postgres.secretName }}
              key: {{ .Values.store.postgres.secretKey }}
        {{- else }}
        - name: SOJOURN_URL
          value: "sqlite:/data/sojourn.db"
        {{- end }}
        {{- range $name, $value := .Values.settings }}
        - name: {{ $name }}
          value: {{ $value | quote }}
        {{- end }}
      startupProbe:
        httpGet: { path: /livez, port: http }
        periodSeconds: 2
        failureThreshold: 150
      livenessProbe:
        httpGet: { path: /livez, port: http }
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: { path: /readyz, port: http }
        periodSeconds: 5
        timeoutSeconds: 5
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: ["ALL"]
      volumeMounts:
        {{- if eq .Values.store.type "sqlite" }}
        - name: data
          mountPath: /data
        {{- end }}
        - name: tmp
          mountPath: /tmp
  volumes:
    - name: tmp
      emptyDir: {}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
