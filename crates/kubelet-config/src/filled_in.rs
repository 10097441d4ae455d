//! Values that the kubelet writes into its own configuration at its start, so that `configz` shows them although no
//! file has them.
//!
//! A value counts as filled in if the kubelet would fill in the same one again. So a configuration without it means the
//! same, even if a person wrote it. Other values in `configz` may come from the host, too, and stay:
//!
//! - `cgroupDriver`, since 1.35 that of the container runtime (kubernetes/kubernetes#134743). Only some runtimes report
//!   it, and with others a kubelet without the field does not start;
//! - the own certificate below another folder than the default of `--cert-dir`: a person may have made it;
//! - flags of the kubelet.

use serde_json::{Map, Value as Json};

/// The default of `--cert-dir`, where a kubelet makes its own certificate.
const OWN_CERTIFICATE: [(&str, &str); 2] =
    [("tlsCertFile", "/var/lib/kubelet/pki/kubelet.crt"), ("tlsPrivateKeyFile", "/var/lib/kubelet/pki/kubelet.key")];

/// Values that the kubelet fills in together.
struct FilledIn {
    /// The fields, with the key for a value in a map.
    paths: &'static [[&'static str; 2]],
    /// Whether the kubelet has filled in, or would overwrite, the values in this configuration.
    applies: fn(&Map<String, Json>) -> bool,
}

/// Sources: cmd/kubelet/app/server.go, `InitializeTLS` for the certificate, `run` for the reserved CPUs (since 1.17).
const TABLE: [FilledIn; 2] = [
    FilledIn { paths: &[["tlsCertFile", ""], ["tlsPrivateKeyFile", ""]], applies: has_own_certificate },
    // The kubelet deletes the one, and replaces the other by the number of CPUs.
    FilledIn { paths: &[["kubeReserved", "cpu"], ["systemReserved", "cpu"]], applies: reserves_cpus },
];

/// Removes what the kubelet fills in.
pub fn remove_filled_in(configuration: &mut Map<String, Json>) {
    for FilledIn { paths, applies } in TABLE {
        if !applies(configuration) {
            continue;
        }
        for [field, key] in paths {
            let map = configuration.get_mut(*field).and_then(Json::as_object_mut);
            let is_empty = map.is_none_or(|map| {
                map.remove(*key);
                map.is_empty()
            });
            if is_empty {
                configuration.remove(*field);
            }
        }
    }
}

/// Fills in the certificate that a kubelet with this configuration makes.
pub fn fill_in_certificate(configuration: &mut Map<String, Json>) {
    if !bootstraps(configuration) && OWN_CERTIFICATE.iter().all(|(field, _)| text(configuration, field).is_empty()) {
        configuration.extend(OWN_CERTIFICATE.map(|(field, file)| (field.to_owned(), file.into())));
    }
}

fn has_own_certificate(configuration: &Map<String, Json>) -> bool {
    !bootstraps(configuration) && OWN_CERTIFICATE.iter().all(|(field, file)| text(configuration, field) == *file)
}

/// Reports whether the API server signs the kubelet's certificate, so that the kubelet makes none.
fn bootstraps(configuration: &Map<String, Json>) -> bool {
    configuration.get("serverTLSBootstrap") == Some(&Json::Bool(true))
}

fn reserves_cpus(configuration: &Map<String, Json>) -> bool {
    !text(configuration, "reservedSystemCPUs").is_empty()
}

fn text<'c>(configuration: &'c Map<String, Json>, field: &str) -> &'c str {
    configuration.get(field).and_then(Json::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn without(configuration: Json) -> Json {
        let mut map = configuration.as_object().expect("a map").clone();
        remove_filled_in(&mut map);
        Json::Object(map)
    }

    #[test]
    fn removes_what_a_kubelet_fills_in() {
        let mut shown = Map::from_iter([("maxPods".to_owned(), json!(7))]);
        fill_in_certificate(&mut shown);
        assert_eq!(shown["tlsCertFile"], "/var/lib/kubelet/pki/kubelet.crt");
        assert_eq!(without(Json::Object(shown)), json!({"maxPods": 7}));
        let cpus = json!({"reservedSystemCPUs": "0", "systemReserved": {"cpu": "1", "memory": "1Gi"}, "kubeReserved": {"cpu": "2"}});
        assert_eq!(without(cpus), json!({"reservedSystemCPUs": "0", "systemReserved": {"memory": "1Gi"}}));
    }

    #[test]
    fn keeps_values_that_a_person_chose() {
        for chosen in [
            json!({"tlsCertFile": "/etc/k/kubelet.crt", "tlsPrivateKeyFile": "/etc/k/kubelet.key"}),
            json!({"tlsCertFile": "/var/lib/kubelet/pki/kubelet.crt", "tlsPrivateKeyFile": "/etc/k/kubelet.key"}),
            json!({"tlsCertFile": "/var/lib/kubelet/kubelet.crt", "tlsPrivateKeyFile": "/var/lib/kubelet/kubelet.key"}),
            json!({"tlsCertFile": "/var/lib/kubelet/pki/kubelet.crt", "tlsPrivateKeyFile": "/var/lib/kubelet/pki/kubelet.key", "serverTLSBootstrap": true}),
            json!({"systemReserved": {"cpu": "1"}, "kubeReserved": {"cpu": "1"}}),
            json!({"systemReserved": {"cpu": "1"}, "reservedSystemCPUs": ""}),
            json!({"cgroupDriver": "systemd"}),
        ] {
            assert_eq!(without(chosen.clone()), chosen);
        }
    }
}
