{{/*
A KubeSchedulerConfiguration that is registered with prebind. prebind.schedulerConfiguration (dict ...):
  root $, name of the scheduler, mode, httpTimeout, url without /v1, directory of the client's files,
  kubeconfig (empty: in the cluster), lease (empty: kube-scheduler's own)
*/}}
{{- define "prebind.schedulerConfiguration" -}}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
{{- with .kubeconfig }}
clientConnection:
  kubeconfig: {{ . }}
{{- end }}
leaderElection:
  leaderElect: true
  {{- with .lease }}
  resourceName: {{ . }}
  resourceNamespace: {{ $.root.Release.Namespace }}
  {{- end }}
profiles:
- schedulerName: {{ .name }}
  {{- if eq .mode "bind" }}
  plugins: # both lists, in every profile: prebind serves them all
    reserve:
      disabled:
      - name: VolumeBinding
    preBind:
      disabled:
      - name: VolumeBinding
  {{- else if eq .mode "full" }}
  plugins: # these lists, in every profile: prebind serves them all
    {{- range list "filter" "preScore" "score" "reserve" "preBind" }}
    {{ . }}:
      disabled:
      - name: VolumeBinding
    {{- end }}
  {{- end }}
extenders:
{{- if eq .mode "full" }}
- urlPrefix: {{ .url }}/v1
  filterVerb: filter
  prioritizeVerb: prioritize
  weight: 1
  {{- include "prebind.schedulerTransport" . }}
  httpTimeout: 5s
  ignorable: false
  nodeCacheCapable: true
{{- end }}
- urlPrefix: {{ .url }}/v1
  bindVerb: bind
  {{- include "prebind.schedulerTransport" . }}
  httpTimeout: {{ .httpTimeout }} # above prebind's volumes.bindTimeout
  ignorable: false # true would bind pods without their volumes
  nodeCacheCapable: true
{{- end -}}

{{/* How an extender entry calls prebind. */}}
{{- define "prebind.schedulerTransport" }}
  enableHTTPS: {{ ne .root.Values.tls.type "none" }}
  {{- if ne .root.Values.tls.type "none" }}
  tlsConfig:
    caFile: {{ .directory }}/ca.crt
    certFile: {{ .directory }}/tls.crt
    keyFile: {{ .directory }}/tls.key
    serverName: {{ include "prebind.serverName" .root }}
  {{- end }}
{{- end -}}

{{/* The second scheduler's configuration. */}}
{{- define "prebind.secondScheduler" -}}
{{- $scheduler := .Values.scheduler -}}
{{- $url := printf "%s://%s:%d" (include "prebind.portName" .) (include "prebind.serverName" .) (int .Values.service.port) -}}
{{- $timeout := $scheduler.httpTimeout | default (include "prebind.httpTimeout" .) -}}
{{- include "prebind.schedulerConfiguration" (dict "root" . "name" $scheduler.name "mode" $scheduler.mode "httpTimeout" $timeout "url" $url "directory" "/etc/prebind/client" "lease" $scheduler.name) -}}
{{- end -}}
