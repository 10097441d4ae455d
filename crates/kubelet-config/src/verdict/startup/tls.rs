//! The rules for TLS of the kubelet's server: `cmd/kubelet/app/server.go` `InitializeTLS`,
//! `component-base/cli/flag/ciphersuites_flag.go` and `curves_flag.go`.

use std::collections::BTreeMap;

use super::{did_you_mean, items};
use crate::document::Node;
use crate::fields::{TlsKind, tls_names};
use crate::verdict::config::whole;
use crate::verdict::refusals::Check;

pub(super) const CHECKS: &[Check] = &[
    ("tls-cipher-suite", |config, refusals| {
        let names = tls_names(TlsKind::Cipher, config.minor()).map(|cipher| cipher.value.as_str());
        for (field, name, node) in items(config, "tlsCipherSuites") {
            if !names.clone().any(|known| known == name) {
                let message = format!("{field} is {name:?}, a cipher suite that kubelet {} lacks", config.minor());
                refusals.at(field, node.place.clone(), message).help(did_you_mean(name, names.clone()));
            }
        }
    }),
    ("tls-curve", |config, refusals| {
        let mut seen: BTreeMap<i128, &Node> = BTreeMap::new();
        for (at, node) in config.list("tlsCurvePreferences").unwrap_or_default().iter().enumerate() {
            let field = format!("tlsCurvePreferences[{at}]");
            let Some(id) = (if node.is_null() { Some(0) } else { whole(node) }) else { continue };
            if !tls_names(TlsKind::Curve, config.minor()).any(|curve| curve.value.parse() == Ok(id)) {
                let curves = tls_names(TlsKind::Curve, config.minor())
                    .map(|curve| format!("{} ({})", curve.value, curve.common_name));
                let help = format!("remove it, or use one of {}", curves.collect::<Vec<_>>().join(", "));
                let message = format!("{field} is {id}, a curve that kubelet {} lacks", config.minor());
                refusals.at(field, node.place.clone(), message).help(help);
            } else if let Some(first) = seen.get(&id) {
                let message = format!("{field} repeats the curve {id}");
                refusals
                    .at(field, node.place.clone(), message)
                    .related(first.place.clone(), "first occurrence")
                    .help("remove it");
            } else {
                seen.insert(id, node);
            }
        }
    }),
];
