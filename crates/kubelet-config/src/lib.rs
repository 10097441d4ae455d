//! KubeletConfiguration (`kubelet.config.k8s.io/v1beta1`) as the kubelet of each Kubernetes version reads it.
//!
//! The crate needs neither a cluster nor a kubelet. Every function is pure: the crate reads no file, clock, network or
//! environment. The facts are tables in the folder `data`. Each row names its source in Kubernetes.
//!
//! One does five things with it: read, judge, compare, compute the values in effect, and explain.
//!
//! # Read
//!
//! [`document`] has the content of a file as the kubelet reads it, with the line of every value. A doubtful text yields
//! a tree, too, and a [`finding`] with the place of the doubt.
//!
//! ```
//! use kubelet_config::document::Document;
//!
//! let parsed = Document::parse("kubelet.yaml", "kind: KubeletConfiguration\nfailSwapOn: no\n");
//! let document = parsed.document.expect("the kubelet can read the text");
//! let value = document.root.get("failSwapOn").expect("the field is set");
//! assert_eq!((value.to_json(), value.place.line), (false.into(), 2));
//! // Readers of YAML 1.2 read `no` as text.
//! assert_eq!(parsed.findings[0].code, "ambiguous-scalar");
//! ```
//!
//! # Judge
//!
//! [`verdict`] has the result of loading, validating and starting with a configuration, by version. [`advice`] has
//! accepted settings that are likely mistakes, and [`capacity`] reservations that a node cannot hold.
//!
//! ```
//! # use kubelet_config::document::Document;
//! use kubelet_config::verdict::{Stage, assess};
//! use kubelet_config::{Minor, advice};
//!
//! let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
//! let text = format!("{head}maxPods: -1\nreadOnlyPort: 10255\n");
//! let document = Document::parse("kubelet.yaml", &text).document.expect("a document");
//! let verdict = assess(&document, Minor(36));
//! assert_eq!(verdict.stage, Stage::Validate);
//! let refusal = verdict.reasons().next().expect("a reason");
//! assert_eq!((refusal.rule, refusal.place.line), ("max-pods", 3));
//!
//! let advice = advice::review(&document, &[verdict]);
//! assert!(advice.iter().any(|finding| finding.code == "open-read-only-port"));
//! ```
//!
//! # Compare
//!
//! [`effective::changes`] has the changed fields of two configurations, where the defaults of a version count as set.
//! [`risk`] has the effect of each change on running pods, and [`risk::removals`] what a node loses.
//!
//! ```
//! # use kubelet_config::document::Document;
//! use kubelet_config::{Minor, effective, risk};
//!
//! let read = |text: &str| Document::parse("kubelet.yaml", text).document.expect("a document");
//! let (old, new) = (read("maxPods: 110\n"), read("cpuManagerPolicy: static\n"));
//! let changes = effective::changes(&old, &new, &[Some(Minor(36))].into());
//! // 110 is the default, so that the kubelet does not notice that the line is gone.
//! let noticed: Vec<_> = changes.iter().filter(|change| !change.in_effect.is_empty()).collect();
//! assert_eq!(noticed.len(), 1);
//! assert_eq!(noticed[0].change.path, "cpuManagerPolicy");
//! assert_eq!(risk::of_change("cpuManagerPolicy", None, Some("static")).class, risk::Class::Drain);
//! ```
//!
//! # Compute the values in effect
//!
//! [`effective`] has the values that a kubelet runs with its file, drop-ins, flags and [`defaults`], each with its
//! origin.
//!
//! ```
//! use kubelet_config::Minor;
//! use kubelet_config::effective::{ConfigFile, Kubelet, Origin, effective};
//!
//! let text = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 60\n";
//! let running = effective(&Kubelet {
//!     minor: Minor(36),
//!     config: Some(ConfigFile { path: "/etc/kubelet.yaml", text }),
//!     config_dir: None,
//!     drop_in_alpha: false,
//!     flags: &["--max-pods=70".to_owned()],
//! })
//! .expect("the kubelet accepts its file and flags");
//! let value = &running.values["maxPods"];
//! assert_eq!((&value.value, &value.by), (&70.into(), &Origin::Flag("--max-pods".to_owned())));
//! assert_eq!(running.values["syncFrequency"].by, Origin::Default);
//! ```
//!
//! # Explain
//!
//! [`fields`], [`gates`] and [`verdict::rules`] have the facts of each version. [`startup_error`] explains the last
//! error in the log of a kubelet.
//!
//! ```
//! use kubelet_config::fields::{self, Target};
//! use kubelet_config::verdict::rules;
//! use kubelet_config::{Minor, gates};
//!
//! let Ok(Target::Field(field)) = fields::find("logging.format") else { panic!("the field exists") };
//! assert_eq!(field.default.at(Minor(36)), Some(&"text".into()));
//! assert_eq!(fields::find("maxPod").unwrap_err().near.as_deref(), Some("maxPods"));
//! assert_eq!(rules::lookup("max-pods").expect("a rule").fields, ["maxPods"]);
//! assert!(gates::lookup("NodeSwap", Minor(36)).expect("a gate").default);
//! ```

pub mod advice;
pub mod capacity;
pub mod defaults;
pub mod document;
pub mod effective;
pub mod fields;
pub mod finding;
pub mod gates;
mod minor;
pub mod risk;
pub mod startup_error;
mod table;
pub mod values;
pub mod verdict;

pub use minor::{Minor, NEWEST, NEWEST_RELEASED, OLDEST};

/// The `apiVersion` that every kubelet requires.
pub const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";
/// The `kind` that every kubelet requires.
pub const KIND: &str = "KubeletConfiguration";
