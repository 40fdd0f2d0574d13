{{/* What prebind and the second scheduler both may reach: DNS and the API server. */}}
{{- define "prebind.egress" -}}
- ports:
  {{- range .Values.networkPolicy.dnsPorts }}
  - port: {{ . }}
    protocol: UDP
  - port: {{ . }}
    protocol: TCP
  {{- end }}
- ports:
  {{- range .Values.networkPolicy.apiServer.ports }}
  - port: {{ . }}
  {{- end }}
  {{- with .Values.networkPolicy.apiServer.peers }}
  to:
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .Values.networkPolicy.extraEgress }}
{{ toYaml . }}
{{- end }}
{{- end -}}
