{{/* The pod template of prebind, the same in both modes. */}}
{{- define "prebind.podTemplate" -}}
metadata:
  labels:
    {{- include "prebind.podLabels" (list . "binder" .Values.podLabels) | nindent 4 }}
  annotations:
    {{- $annotations := dict "kubectl.kubernetes.io/default-container" "prebind" }}
    {{- /* A new configuration rolls the pods. New certificates do not: prebind reloads them. */}}
    {{- $_ := set $annotations "checksum/config" (include "prebind.config" . | sha256sum) }}
    {{- toYaml (merge $annotations .Values.podAnnotations) | nindent 4 }}
spec:
  serviceAccountName: {{ include "prebind.serviceAccountName" . }}
  automountServiceAccountToken: true
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  terminationGracePeriodSeconds: {{ include "prebind.gracePeriod" . }}
  {{- if eq .Values.mode "daemonset" }}
  hostNetwork: true
  dnsPolicy: ClusterFirstWithHostNet
  {{- end }}
  securityContext:
    {{- toYaml .Values.podSecurityContext | nindent 4 }}
  containers:
  - {{ include "prebind.container" . | indent 4 | trim }}
  volumes:
  - name: config
    configMap:
      name: {{ include "prebind.fullname" . }}
  {{- if ne .Values.tls.type "none" }}
  - name: tls
    secret:
      secretName: {{ include "prebind.serverSecret" . }}
      defaultMode: 0440
  {{- end }}
  {{- with .Values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- include "prebind.placement" . | nindent 2 }}
{{- end -}}

{{- define "prebind.container" -}}
{{- $server := (include "prebind.config" . | fromYaml).server -}}
name: prebind
image: {{ include "prebind.image" (list .Values.image (printf "v%s" .Chart.AppVersion)) }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args:
- serve
- --config=/etc/prebind/config/config.yaml
{{- with .Values.extraArgs }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- $limit := (.Values.resources.limits).memory | default "" | include "prebind.goMemLimit" }}
{{- if or $limit .Values.extraEnv }}
env:
{{- with $limit }}
- name: GOMEMLIMIT # 90 % of the limit, in bytes
  value: {{ . | quote }}
{{- end }}
{{- with .Values.extraEnv }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}
ports:
- name: {{ include "prebind.portName" . }}
  containerPort: {{ include "prebind.port" $server.address }}
- name: ops
  containerPort: {{ include "prebind.port" $server.opsAddress }}
startupProbe:
  {{- include "prebind.probe" (list . "/livez" .Values.startupProbe) | nindent 2 }}
livenessProbe:
  {{- include "prebind.probe" (list . "/livez" .Values.livenessProbe) | nindent 2 }}
readinessProbe:
  {{- include "prebind.probe" (list . "/readyz" .Values.readinessProbe) | nindent 2 }}
securityContext:
  {{- toYaml .Values.securityContext | nindent 2 }}
{{- with .Values.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumeMounts:
- name: config
  mountPath: /etc/prebind/config
  readOnly: true
{{- if ne .Values.tls.type "none" }}
- name: tls
  mountPath: /etc/prebind/tls
  readOnly: true
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end -}}

{{- define "prebind.portName" -}}
{{- ternary "http" "https" (eq .Values.tls.type "none") -}}
{{- end -}}

{{/* prebind.probe (list $ PATH TIMES). On loopback the kubelet must be told so: it asks the pod's address. */}}
{{- define "prebind.probe" -}}
{{- $opsAddress := (include "prebind.config" (index . 0) | fromYaml).server.opsAddress -}}
httpGet:
  path: {{ index . 1 }}
  port: ops
  {{- if and (eq (index . 0).Values.mode "daemonset") (include "prebind.loopback" $opsAddress) }}
  host: {{ regexReplaceAll ":[0-9]+$" $opsAddress "" | trimAll "[]" | quote }}
  {{- end }}
{{ toYaml (index . 2) }}
{{- end -}}
