{{/* How to register the cluster's own scheduler. */}}
{{- define "prebind.notes.register" -}}
{{- $plain := eq .Values.tls.type "none" -}}
{{- $port := include "prebind.port" (include "prebind.config" . | fromYaml).server.address -}}
{{- $host := include "prebind.notes.host" . -}}
{{- if eq .Values.mode "deployment" -}}
{{- $port = .Values.service.port -}}
{{- end -}}
{{- $url := printf "%s://%s:%v" (include "prebind.portName" .) $host $port -}}
{{- $step := 0 }}
{{- $secret := include "prebind.clientSecret" . | default "CLIENT-SECRET" -}}
{{- if not $plain }}
{{- $step = add1 $step }}
{{ $step }}. On every control-plane node, as root, fetch prebind's CA and the scheduler's client certificate:

     install -d -m 0700 /etc/kubernetes/prebind
     for file in ca.crt tls.crt tls.key; do
       kubectl get secret {{ $secret }} --namespace {{ .Release.Namespace }} --output "go-template={{ "{{" }}index .data \"$file\"{{ "}}" }}" |
         base64 -d > /etc/kubernetes/prebind/$file
     done
{{ end }}
{{- $step = add1 $step }}
{{ $step }}. Give kube-scheduler this configuration (--config=/etc/kubernetes/prebind/scheduler-config.yaml), or merge it into
   yours with `prebind scheduler-config --patch FILE`:

# ---- begin kube-scheduler configuration ----
{{ include "prebind.schedulerConfiguration" (dict "root" . "name" "default-scheduler" "mode" "bind" "httpTimeout" (include "prebind.httpTimeout" .) "url" $url "directory" "/etc/kubernetes/prebind" "kubeconfig" "/etc/kubernetes/scheduler.conf") }}
# ---- end kube-scheduler configuration ----

   The paths are kubeadm's, and the folder must be mounted into the scheduler's pod. `prebind scheduler-config --for kubeadm`
   (k3s, rke2, kind) prints this with the right paths and tells how to restart the scheduler there.
{{- if eq $host "CLUSTER-IP" }}
   CLUSTER-IP is what this prints (a scheduler on the host network cannot resolve Service names):

     kubectl get service {{ include "prebind.fullname" . }} --namespace {{ .Release.Namespace }} --output jsonpath={.spec.clusterIP}
{{- end }}
{{ $step = add1 $step }}
{{ $step }}. See that all is well: `helm test {{ .Release.Name }} --namespace {{ .Release.Namespace }} --logs`, and on a control-plane node

     prebind doctor --scheduler-config /etc/kubernetes/prebind/scheduler-config.yaml --service-account {{ .Release.Namespace }}/{{ include "prebind.serviceAccountName" . }}
       {{- if $plain }} --endpoint {{ $url }}{{ end }}
{{ end -}}

{{/* The host that the scheduler calls; the Service's address is known once it is there. */}}
{{- define "prebind.notes.host" -}}
{{- if eq .Values.mode "daemonset" -}}
{{- include "prebind.nearHost" . -}}
{{- else -}}
{{- $service := lookup "v1" "Service" .Release.Namespace (include "prebind.fullname" .) -}}
{{- $address := .Values.service.clusterIP | default ($service.spec).clusterIP | default "CLUSTER-IP" -}}
{{- if contains ":" $address -}}[{{ $address }}]{{- else -}}{{ $address }}{{- end -}}
{{- end -}}
{{- end -}}

{{/* What is unsafe in these values, one line each. */}}
{{- define "prebind.notes.warnings" -}}
{{- $server := (include "prebind.config" . | fromYaml).server -}}
{{- $deployment := eq .Values.mode "deployment" -}}
{{- if and $deployment (eq (int .Values.replicas) 1) }}
WARNING: one replica: while its node is away no pod of a registered scheduler is bound, not even prebind's own next one. Use replicas=2.
{{- end }}
{{- if and (eq .Values.tls.type "none") $server.insecure }}
WARNING: plain HTTP (tls.type=none, config.server.insecure=true): whoever reaches {{ $server.address }} can put any pod on any node.
{{- else if eq .Values.tls.type "none" }}
WARNING: plain HTTP: every process on the control-plane nodes' host network can put any pod on any node.
{{- else if not $server.tls.clientCAFile }}
WARNING: config.server.tls.clientCAFile is empty: callers are not authenticated, and whoever reaches {{ $server.address }} can put any pod on any node.
{{- else if not $server.tls.allowedClientNames }}
WARNING: config.server.tls.allowedClientNames is empty: any certificate of the client CA may call.
{{- end }}
{{- if and $deployment (include "prebind.loopback" $server.address) }}
WARNING: config.server.address={{ $server.address }} is on loopback: the Service does not reach it.
{{- end }}
{{- if and $deployment (include "prebind.loopback" $server.opsAddress) }}
WARNING: config.server.opsAddress={{ $server.opsAddress }} is on loopback: the kubelet's probes fail, and no replica becomes ready.
{{- end }}
{{- if and $deployment (not .Values.service.clusterIP) (not .Values.scheduler.enabled) }}
WARNING: service.clusterIP is not fixed: the address that the scheduler calls is another one after uninstall and install.
{{- end }}
{{- if eq .Values.tls.type "helm" }}
WARNING: the certificates end on {{ now | dateModify (printf "+%dh" (mul 24 (int .Values.tls.helm.certDays))) | date "2006-01-02" }}. Run `helm upgrade` before, which makes new ones{{ if not .Values.scheduler.enabled }}, and copy the client certificate to the schedulers again{{ end }}.
WARNING: `helm template` and GitOps tools do not see the CA in the cluster and make a new one each time, which schedulers do not trust: use tls.type=cert-manager or existingSecret there.
{{- end }}
{{- if and $deployment (not .Values.podDisruptionBudget.enabled) }}
WARNING: podDisruptionBudget.enabled=false: a drain may evict all replicas at once.
{{- end }}
{{- if and $deployment (not .Values.networkPolicy.enabled) }}
WARNING: networkPolicy.enabled=false: every pod reaches prebind's ports; health and metrics ask for no certificate.
{{- end }}
{{- if and .Values.scheduler.enabled (eq (int .Values.scheduler.replicas) 1) }}
WARNING: one replica of the second scheduler: while its node is away its pods wait. Use scheduler.replicas=2.
{{- end }}
{{- end -}}
