{{/* DNS names in the server certificate. */}}
{{- define "prebind.dnsNames" -}}
{{- $name := printf "%s.%s" (include "prebind.fullname" .) .Release.Namespace -}}
- {{ $name }}.svc
- {{ $name }}.svc.{{ .Values.clusterDomain }}
- {{ $name }}
- localhost
{{- end -}}
