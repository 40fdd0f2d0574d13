{{/* Sets every key of the second map in the first, maps into maps. (mergeOverwrite would drop "" and [].) prebind.merge (list BASE OVER) */}}
{{- define "prebind.merge" -}}
{{- $base := index . 0 -}}
{{- range $key, $value := index . 1 -}}
{{- if and (kindIs "map" $value) (kindIs "map" (get $base $key)) -}}
{{- include "prebind.merge" (list (get $base $key) $value) -}}
{{- else -}}
{{- $_ := set $base $key $value -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* prebind's configuration file. */}}
{{- define "prebind.config" -}}
{{- $plain := eq .Values.tls.type "none" -}}
{{- $server := dict "drainTimeout" "25s" -}}
{{- if eq .Values.mode "daemonset" -}}
{{- $_ := set $server "address" (ternary "127.0.0.1:8888" "127.0.0.1:8443" $plain) -}}
{{- $_ = set $server "opsAddress" "127.0.0.1:8889" -}}
{{- else -}}
{{- $_ := set $server "address" (ternary ":8888" ":8443" $plain) -}}
{{- $_ = set $server "opsAddress" ":8889" -}}
{{- $_ = set $server "shutdownDelay" "5s" -}}
{{- end -}}
{{- if not $plain -}}
{{- $tls := dict "certFile" "/etc/prebind/tls/tls.crt" "keyFile" "/etc/prebind/tls/tls.key" "clientCAFile" "/etc/prebind/tls/ca.crt" -}}
{{- $given := (.Values.config.server).tls | default dict -}}
{{- if or (not (hasKey $given "clientCAFile")) $given.clientCAFile -}}
{{- $_ := set $tls "allowedClientNames" (list .Values.tls.clientName) -}}
{{- end -}}
{{- $_ := set $server "tls" $tls -}}
{{- end -}}
{{- $config := dict "apiVersion" "prebind.dev/v1alpha1" "kind" "PrebindConfiguration" "server" $server -}}
{{- include "prebind.merge" (list $config (deepCopy .Values.config)) -}}
{{- toYaml $config -}}
{{- end -}}

{{/* The port of an address host:port; empty when there is none. */}}
{{- define "prebind.port" -}}
{{- regexFind "[0-9]+$" (toString .) -}}
{{- end -}}

{{/* "true" for an address on loopback. */}}
{{- define "prebind.loopback" -}}
{{- if regexMatch "^(127\\.[0-9.]+|localhost|\\[::1\\]):" (toString .) -}}true{{- end -}}
{{- end -}}

{{/* The host by which the bind verbs are reached on their own node (mode daemonset). */}}
{{- define "prebind.nearHost" -}}
{{- $host := regexReplaceAll ":[0-9]+$" (include "prebind.config" . | fromYaml).server.address "" -}}
{{- if has $host (list "" "0.0.0.0" "[::]") -}}127.0.0.1{{- else -}}{{ $host }}{{- end -}}
{{- end -}}

{{/* A Go duration in seconds, such as 90.5 for "1m30.5s". */}}
{{- define "prebind.seconds" -}}
{{- $units := dict "h" 3600.0 "m" 60.0 "s" 1.0 "ms" 0.001 "us" 0.000001 "µs" 0.000001 "ns" 0.000000001 -}}
{{- $sum := 0.0 -}}
{{- range regexFindAll "[0-9.]+[a-zµ]+" (toString .) -1 -}}
{{- $unit := regexFind "[a-zµ]+$" . -}}
{{- $sum = addf $sum (mulf (trimSuffix $unit . | float64) (get $units $unit)) -}}
{{- end -}}
{{- $sum -}}
{{- end -}}

{{/* Seconds, rounded up, that prebind takes to stop. */}}
{{- define "prebind.stopSeconds" -}}
{{- $server := (include "prebind.config" . | fromYaml).server -}}
{{- $delay := include "prebind.seconds" ($server.shutdownDelay | default "0s") | float64 -}}
{{- addf $delay (include "prebind.seconds" ($server.drainTimeout | default "25s") | float64) | ceil | int -}}
{{- end -}}

{{- define "prebind.gracePeriod" -}}
{{- if kindIs "invalid" .Values.terminationGracePeriodSeconds -}}
{{- add (include "prebind.stopSeconds" .) 10 -}}
{{- else -}}
{{- .Values.terminationGracePeriodSeconds | int -}}
{{- end -}}
{{- end -}}

{{- define "prebind.bindTimeout" -}}
{{- (.Values.config.volumes).bindTimeout | default "10m" -}}
{{- end -}}

{{/* The extender entry's httpTimeout: a minute above bindTimeout. */}}
{{- define "prebind.httpTimeout" -}}
{{- $seconds := addf (include "prebind.seconds" (include "prebind.bindTimeout" .) | float64) 60 | ceil | int -}}
{{- if mod $seconds 60 -}}{{ $seconds }}s{{- else -}}{{ div $seconds 60 }}m{{- end -}}
{{- end -}}

{{/* 90 % of a memory quantity in bytes; empty for a form that it does not know. */}}
{{- define "prebind.goMemLimit" -}}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 -}}
{{- $quantity := toString . -}}
{{- $unit := regexFind "[A-Za-z]*$" $quantity -}}
{{- if and (regexMatch "^[0-9]+(\\.[0-9]+)?[A-Za-z]*$" $quantity) (hasKey $units $unit) -}}
{{- mulf (trimSuffix $unit $quantity | float64) (get $units $unit) 0.9 | floor | int64 -}}
{{- end -}}
{{- end -}}
