{{/* Where the second scheduler's pods go. */}}
{{- define "prebind.schedulerPlacement" -}}
{{- with .Values.scheduler.nodeSelector -}}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{ end -}}
{{- with .Values.scheduler.tolerations -}}
tolerations:
  {{- toYaml . | nindent 2 }}
{{ end -}}
affinity:
  {{- if .Values.scheduler.affinity }}
  {{- toYaml .Values.scheduler.affinity | nindent 2 }}
  {{- else }}
  {{- include "prebind.apart" (list . "scheduler") | nindent 2 }}
  {{- end }}
topologySpreadConstraints:
  {{- include "prebind.spread" (list . "scheduler") | nindent 2 }}
{{- end -}}
