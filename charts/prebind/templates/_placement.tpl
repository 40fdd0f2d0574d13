{{/* Where prebind's pods go. */}}
{{- define "prebind.placement" -}}
{{- with .Values.nodeSelector -}}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{ end -}}
{{- if .Values.tolerations -}}
tolerations:
  {{- toYaml .Values.tolerations | nindent 2 }}
{{ else if eq .Values.mode "daemonset" -}}
tolerations: # wherever the scheduler itself runs
- operator: Exists
{{ end -}}
affinity:
  {{- if .Values.affinity }}
  {{- toYaml .Values.affinity | nindent 2 }}
  {{- else if eq .Values.mode "daemonset" }}
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
      - matchExpressions:
        - key: node-role.kubernetes.io/control-plane # its value differs between distributions
          operator: Exists
  {{- else }}
  {{- include "prebind.apart" (list . "binder") | nindent 2 }}
  {{- end }}
{{- if eq .Values.mode "deployment" }}
topologySpreadConstraints:
  {{- if .Values.topologySpreadConstraints }}
  {{- toYaml .Values.topologySpreadConstraints | nindent 2 }}
  {{- else }}
  {{- include "prebind.spread" (list . "binder") | nindent 2 }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* Affinity: pods of a component rather on different nodes. prebind.apart (list $ COMPONENT) */}}
{{- define "prebind.apart" -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
  - weight: 100
    podAffinityTerm:
      topologyKey: kubernetes.io/hostname
      labelSelector:
        matchLabels:
          {{- include "prebind.selectorLabels" . | nindent 10 }}
{{- end -}}

{{/* Spread of a component's pods over zones. prebind.spread (list $ COMPONENT) */}}
{{- define "prebind.spread" -}}
- maxSkew: 1
  topologyKey: topology.kubernetes.io/zone
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "prebind.selectorLabels" . | nindent 6 }}
  matchLabelKeys: [pod-template-hash]
{{- end -}}
