{{/* The test goes where prebind is in mode daemonset, and anywhere else otherwise. */}}
{{- define "prebind.testPlacement" -}}
{{- if eq .Values.mode "daemonset" -}}
{{- include "prebind.placement" . -}}
{{- else -}}
{{- with .Values.nodeSelector -}}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{ end -}}
{{- with .Values.tolerations -}}
tolerations:
  {{- toYaml . | nindent 2 }}
{{ end -}}
{{- end -}}
{{- end -}}
