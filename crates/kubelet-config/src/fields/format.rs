//! Formats of strings and numbers in KubeletConfiguration beyond their type: the `format` column of the table of
//! fields.
//!
//! A pattern accepts every value that the kubelet of any version accepts, and possibly more. A schema with these
//! patterns thus refuses no valid file; the exact checks are in the rules.

/// An unsigned number with or without a fraction, for [`concat!`].
macro_rules! number {
    () => {
        r"([0-9]+(\.[0-9]*)?|\.[0-9]+)"
    };
}

/// An unsigned quantity.
macro_rules! quantity {
    () => {
        concat!(number!(), "([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?")
    };
}

/// A duration as Go parses it (`time.ParseDuration`).
pub(super) const DURATION: &str = concat!("^[+-]?(0|(", number!(), "(ns|us|µs|μs|ms|s|m|h))+)$");
/// A quantity (apimachinery `resource.ParseQuantity`).
pub(super) const QUANTITY: &str = concat!("^[+-]?", quantity!(), "$");
/// Label names and similar names (apimachinery `validation.IsQualifiedName`), without a length limit.
macro_rules! label {
    () => {
        "[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"
    };
}

macro_rules! formats {
    ($($(#[doc = $doc:literal])* $variant:ident = $phrase:literal, $pattern:expr;)*) => {
        /// The format of a string or a number.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Format {
            $($(#[doc = $doc])* $variant,)*
        }

        impl Format {
            #[cfg(test)]
            const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns a phrase that describes the format.
            #[must_use]
            pub fn phrase(self) -> &'static str {
                match self {
                    $(Self::$variant => $phrase,)*
                }
            }

            /// Returns a regular expression in the ECMAScript dialect that every valid value matches; `None` if every
            /// text is valid.
            #[must_use]
            pub fn pattern(self) -> Option<&'static str> {
                match self {
                    $(Self::$variant => $pattern,)*
                }
            }
        }
    };
}

formats! {
    /// A path on the host; relative paths start at the configuration file's folder.
    Path = "a path on the node", None;
    /// A URL.
    Url = "a URL", None;
    /// An IP address; no kubelet checks it while it reads the file.
    Ip = "an IP address", None;
    /// An address range.
    Cidr = "an address range such as 10.0.0.0/24", None;
    /// A DNS name.
    DnsName = "a DNS name", None;
    /// The absolute name of a cgroup.
    Cgroup = "the absolute name of a cgroup, such as /system.slice", None;
    /// A list of CPUs (`k8s.io/utils/cpuset.Parse`).
    CpuList = "a list of CPUs such as 0-3,8",
        Some(r"^([+]?[0-9]+(-[+]?[0-9]+)*(,[+]?[0-9]+(-[+]?[0-9]+)*)*)?$");
    /// The name of a TLS cipher suite.
    CipherSuite = "the name of a cipher suite in Go's crypto/tls", None;
    /// The number of a key exchange.
    Curve = "the number of a key exchange in Go's crypto/tls", None;
    /// An eviction threshold (`pkg/kubelet/eviction/helpers.go` parseThresholdStatement).
    EvictionThreshold = "a quantity such as 500Mi or a percentage such as 10%",
        Some(concat!("^([+]?", quantity!(), "|[^% ]+%+)$"));
    /// The minimum that an eviction reclaims (`pkg/kubelet/eviction/helpers.go` parseMinimumReclaims).
    EvictionReclaim = "a quantity such as 1Gi or a percentage such as 5%",
        Some(concat!("^([+-]?", quantity!(), "|[^% ]+%+)$"));
    /// A duration that is not negative, as a value in a map of strings.
    GracePeriod = "a duration such as 1m30s", Some(DURATION);
    /// A whole percentage (`pkg/kubelet/cm/container_manager.go` ParseQOSReserved).
    Percent = "a whole percentage such as 50%", Some("^[+-]?[0-9]+%$");
    /// A quantity that is not negative, as a value in a map of strings.
    Reservation = "a quantity such as 500m or 1Gi", Some(QUANTITY);
    /// A number of bytes, as a quantity in a string.
    Size = "a quantity such as 10Mi", Some(concat!("^([+-]?", quantity!(), ")?$"));
    /// A boolean in a string (`strconv.ParseBool`).
    BooleanText = "a boolean in quotes", Some("^(1|t|T|TRUE|true|True|0|f|F|FALSE|false|False)$");
    /// A boolean or a whole number in a string.
    BooleanOrNumberText = "a boolean or a whole number in quotes", None;
    /// A minor version of Kubernetes.
    MinorVersion = "a version such as 1.35", Some(r"^([0-9]+\.[0-9]+)?$");
    /// The name of a sysctl, or a prefix of names.
    Sysctl = "a sysctl, or a prefix of sysctls with * at the end", None;
    /// A name with an optional domain before it.
    QualifiedName = "a name such as dedicated or example.com/dedicated",
        Some(concat!("^([a-z0-9.-]+/)?", label!(), "$"));
    /// A label value.
    LabelValue = "up to 63 letters, digits and ._-", Some(concat!("^(", label!(), ")?$"));
    /// A field that must be omitted or null.
    Unset = "must be omitted", None;
    /// An image without a tag and a digest.
    Image = "an image without tag and digest, or a path and /*", None;
    /// A pattern for the names of source files.
    FilePattern = "a pattern for file names", Some("^[^=,]+$");
    /// A host and port, or a gRPC target.
    HostPort = "host:port, or an address with dns, unix or unix-abstract", None;
    /// The socket of a container runtime.
    Endpoint = "a socket such as unix:///run/containerd/containerd.sock", None;
    /// A media type.
    MediaType = "a media type", None;
    /// The value of an HTTP header.
    HeaderValue = "the value of an HTTP header", None;
    /// A 64-bit whole number; without a format whole numbers have 32 bits.
    Int64 = "a 64-bit whole number", None;
    /// An unsigned 32-bit whole number.
    Uint32 = "an unsigned 32-bit whole number", None;
}

impl Format {
    /// Reports whether every kubelet refuses the empty string. A missing key in a list item stands for the empty
    /// string.
    pub(super) fn refuses_empty(self) -> bool {
        matches!(self, Self::QualifiedName | Self::FilePattern)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fields, table};

    #[test]
    fn every_format_has_a_field() {
        for format in Format::ALL {
            assert!(fields::all().any(|field| field.format == Some(*format)), "{format:?}");
        }
        assert_eq!(table::word::<Format>("paths"), None);
    }
}
