{{/* Refuses values that fit the schema and cannot work, all of them at once. */}}
{{- define "prebind.validate" -}}
{{- $mistakes := concat (include "prebind.mistakes.server" . | fromYamlArray) (include "prebind.mistakes.objects" . | fromYamlArray) -}}
{{- if eq .Values.mode "daemonset" -}}
{{- $mistakes = concat $mistakes (include "prebind.mistakes.daemonset" . | fromYamlArray) -}}
{{- end -}}
{{- if .Values.scheduler.enabled -}}
{{- $mistakes = concat $mistakes (include "prebind.mistakes.scheduler" . | fromYamlArray) -}}
{{- end -}}
{{- if $mistakes -}}
{{- fail (printf "these values cannot work:\n  - %s" (join "\n  - " $mistakes)) -}}
{{- end -}}
{{- end -}}

{{- define "prebind.mistakes.server" -}}
{{- $server := (include "prebind.config" . | fromYaml).server -}}
{{- $port := include "prebind.port" $server.address -}}
{{- $opsPort := include "prebind.port" $server.opsAddress -}}
{{- if or (not $port) (eq $port "0") }}
- "config.server.address: {{ $server.address }} has no fixed port, and probes, Service and schedulers need one; use for instance :8443"
{{- end }}
{{- if or (not $opsPort) (eq $opsPort "0") }}
- "config.server.opsAddress: {{ $server.opsAddress }} has no fixed port, and the probes need one; use for instance :8889"
{{- else if eq $port $opsPort }}
- "config.server.opsAddress: has the same port {{ $port }} as config.server.address; give each one of its own"
{{- end }}
{{- if and $server.insecure (ne .Values.tls.type "none") }}
- "config.server.insecure: is for plain HTTP, but tls.type is {{ .Values.tls.type }}; leave it out, or use tls.type=none"
{{- end }}
{{- with $server.tls }}
{{- if and .allowedClientNames (not .clientCAFile) }}
- "config.server.tls.allowedClientNames: nobody's name is checked without clientCAFile; leave out one of them"
{{- end }}
{{- end }}
{{- if eq .Values.tls.type "none" }}
{{- if $server.tls }}
- "tls.type: none, but config.server.tls is set; name the Secret with your certificate in tls.existingSecret.server and use tls.type=existingSecret, or remove config.server.tls"
{{- else if not (or $server.insecure (include "prebind.loopback" $server.address)) }}
- "tls.type: none leaves the bind verbs open on {{ $server.address }}: whoever reaches them can put any pod on any node; use another tls.type (helm needs nothing else), or mode=daemonset (loopback only), or, if you accept that, config.server.insecure=true"
{{- end }}
{{- end }}
{{- if and (eq .Values.tls.type "existingSecret") (not .Values.tls.existingSecret.server) }}
- "tls.existingSecret.server: tls.type existingSecret needs the name of a Secret in {{ .Release.Namespace }} with tls.crt, tls.key and ca.crt"
{{- end }}
{{- if and (eq .Values.tls.type "helm") (ge (int .Values.tls.helm.certDays) (int .Values.tls.helm.caDays)) }}
- "tls.helm.caDays: the CA ({{ .Values.tls.helm.caDays }} days) must live longer than what it signs ({{ .Values.tls.helm.certDays }} days): kube-scheduler reads it once, at start"
{{- end }}
{{- $stop := include "prebind.stopSeconds" . | int }}
{{- if lt (include "prebind.gracePeriod" . | int) $stop }}
- "terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }} is less than the {{ $stop }} seconds of config.server.shutdownDelay and drainTimeout: calls would be cut off; raise it, or leave it null"
{{- end }}
{{- end -}}

{{- define "prebind.mistakes.objects" -}}
{{- if and (eq .Values.mode "deployment") (lt (int .Values.replicas) 1) }}
- "replicas: 0 would leave every pod of the registered schedulers pending, prebind's own ones among them; take prebind out of the scheduler's configuration first, then uninstall"
{{- end }}
{{- $address := ((lookup "v1" "Service" .Release.Namespace (include "prebind.fullname" .)).spec).clusterIP }}
{{- if and (eq .Values.mode "deployment") $address .Values.service.clusterIP (ne $address .Values.service.clusterIP) }}
- "service.clusterIP: the Service has {{ $address }}, which cannot be changed; leave it empty or as it is (the schedulers' configuration names it), or delete the Service first"
{{- end }}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) }}
- "serviceAccount.name: is needed with serviceAccount.create=false: prebind's rights must not go to the account that every pod of the namespace has"
{{- end }}
{{- if and .Values.serviceMonitor.enabled .Values.podMonitor.enabled }}
- "podMonitor.enabled: with serviceMonitor.enabled too everything would be counted twice; choose one"
{{- end }}
{{- end -}}

{{- define "prebind.mistakes.daemonset" -}}
{{- $server := (include "prebind.config" . | fromYaml).server -}}
{{- if .Values.serviceMonitor.enabled }}
- "serviceMonitor.enabled: mode daemonset has no Service; use podMonitor.enabled with config.server.opsAddress=:8889"
{{- end }}
{{- if and .Values.podMonitor.enabled (include "prebind.loopback" $server.opsAddress) }}
- "podMonitor.enabled: Prometheus cannot reach {{ $server.opsAddress }}; set config.server.opsAddress=:8889 (metrics are then open, as plain HTTP, on the address of every control-plane node)"
{{- end }}
{{- if .Values.scheduler.enabled }}
- "scheduler.enabled: mode daemonset has no Service that the second scheduler could call; use mode=deployment"
{{- end }}
{{- end -}}

{{- define "prebind.mistakes.scheduler" -}}
{{- $scheduler := .Values.scheduler -}}
{{- if lt (int $scheduler.replicas) 1 }}
- "scheduler.replicas: 0 would leave pods with schedulerName {{ $scheduler.name }} pending; use scheduler.enabled=false"
{{- end }}
{{- if eq $scheduler.name "default-scheduler" }}
- "scheduler.name: default-scheduler is the cluster's own scheduler, and two schedulers would fight over the same pods; choose another name and set it as schedulerName in the pods that prebind shall bind"
{{- end }}
{{- $timeout := $scheduler.httpTimeout | default (include "prebind.httpTimeout" .) }}
{{- if le (include "prebind.seconds" $timeout | float64) (include "prebind.seconds" (include "prebind.bindTimeout" .) | float64) }}
- "scheduler.httpTimeout: {{ $timeout }} must be above config.volumes.bindTimeout ({{ include "prebind.bindTimeout" . }}), or the scheduler hangs up before prebind can say why a pod's volumes take so long"
{{- end }}
{{- if and (eq .Values.tls.type "existingSecret") (not .Values.tls.existingSecret.client) }}
- "tls.existingSecret.client: the second scheduler needs the name of a Secret in {{ .Release.Namespace }} with its tls.crt and tls.key, and prebind's CA in ca.crt"
{{- end }}
{{- end -}}
