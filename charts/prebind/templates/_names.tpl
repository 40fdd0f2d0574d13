{{/* The base of every name. 50 characters leave room for "-scheduler" and "-metrics". */}}
{{- define "prebind.fullname" -}}
{{- $name := .Values.nameOverride | default .Chart.Name -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The base of names without a namespace: two releases of one name in two namespaces do not clash. */}}
{{- define "prebind.clusterName" -}}
{{- printf "%s:%s" .Release.Namespace (include "prebind.fullname" .) -}}
{{- end -}}

{{- define "prebind.schedulerName" -}}
{{- printf "%s-scheduler" (include "prebind.fullname" .) -}}
{{- end -}}

{{- define "prebind.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "prebind.fullname" .) -}}
{{- end -}}

{{/* The Service's name as the server certificate has it, in any namespace's pods. */}}
{{- define "prebind.serverName" -}}
{{- printf "%s.%s.svc" (include "prebind.fullname" .) .Release.Namespace -}}
{{- end -}}

{{/* Labels that select pods, under whatever name: `prebind doctor` finds them so. prebind.selectorLabels (list $ COMPONENT) */}}
{{- define "prebind.selectorLabels" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ $root.Chart.Name }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* Labels of an object: prebind.labels (list $ COMPONENT [MORE]). Those that the chart needs win over commonLabels and MORE. */}}
{{- define "prebind.labels" -}}
{{- $root := index . 0 -}}
{{- $labels := include "prebind.selectorLabels" . | fromYaml -}}
{{- $_ := set $labels "app.kubernetes.io/version" $root.Chart.AppVersion -}}
{{- $_ = set $labels "app.kubernetes.io/managed-by" $root.Release.Service -}}
{{- $_ = set $labels "app.kubernetes.io/part-of" "prebind" -}}
{{- $_ = set $labels "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_") -}}
{{- if gt (len .) 2 -}}
{{- $labels = merge $labels (index . 2) -}}
{{- end -}}
{{- toYaml (merge $labels $root.Values.commonLabels) -}}
{{- end -}}

{{/* Labels of a pod template: as above without the chart's version, which alone should not roll pods. */}}
{{- define "prebind.podLabels" -}}
{{- toYaml (omit (include "prebind.labels" . | fromYaml) "helm.sh/chart") -}}
{{- end -}}

{{/* prebind.image (list IMAGE DEFAULT-TAG) */}}
{{- define "prebind.image" -}}
{{- $image := index . 0 -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository ($image.tag | default (index . 1)) -}}
{{- end -}}
{{- end -}}

{{/* The Secrets of the server and of its client; the latter is empty when the user gave none. */}}
{{- define "prebind.serverSecret" -}}
{{- if eq .Values.tls.type "existingSecret" -}}
{{- .Values.tls.existingSecret.server -}}
{{- else -}}
{{- printf "%s-tls" (include "prebind.fullname" .) -}}
{{- end -}}
{{- end -}}

{{- define "prebind.clientSecret" -}}
{{- if eq .Values.tls.type "existingSecret" -}}
{{- .Values.tls.existingSecret.client -}}
{{- else if ne .Values.tls.type "none" -}}
{{- printf "%s-client" (include "prebind.fullname" .) -}}
{{- end -}}
{{- end -}}
