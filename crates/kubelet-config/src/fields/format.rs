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
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal, $phrase:literal, $pattern:expr;)*) => {
        /// The format of a string or a number.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Format {
            $($(#[doc = $doc])* $variant,)*
        }

        impl Format {
            /// Every format.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Parses a format's name in the table.
            #[must_use]
            pub fn read(name: &str) -> Option<Self> {
                Some(match name {
                    $($name => Self::$variant,)*
                    _ => return None,
                })
            }

            /// Returns the format's name in the table.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

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
    Path = "path", "a path on the node", None;
    /// A URL.
    Url = "url", "a URL", None;
    /// An IP address; no kubelet checks it while it reads the file.
    Ip = "ip", "an IP address", None;
    /// An address range.
    Cidr = "cidr", "an address range such as 10.0.0.0/24", None;
    /// A DNS name.
    DnsName = "dns-name", "a DNS name", None;
    /// The absolute name of a cgroup.
    Cgroup = "cgroup", "the absolute name of a cgroup, such as /system.slice", None;
    /// A list of CPUs (`k8s.io/utils/cpuset.Parse`).
    CpuList = "cpu-list", "a list of CPUs such as 0-3,8",
        Some(r"^([+]?[0-9]+(-[+]?[0-9]+)*(,[+]?[0-9]+(-[+]?[0-9]+)*)*)?$");
    /// The name of a TLS cipher suite.
    CipherSuite = "cipher-suite", "the name of a cipher suite in Go's crypto/tls", None;
    /// The number of a key exchange.
    Curve = "curve", "the number of a key exchange in Go's crypto/tls", None;
    /// An eviction threshold (`pkg/kubelet/eviction/helpers.go` parseThresholdStatement).
    EvictionThreshold = "eviction-threshold", "a quantity such as 500Mi or a percentage such as 10%",
        Some(concat!("^([+]?", quantity!(), "|[^% ]+%+)$"));
    /// The minimum that an eviction reclaims (`pkg/kubelet/eviction/helpers.go` parseMinimumReclaims).
    EvictionReclaim = "eviction-reclaim", "a quantity such as 1Gi or a percentage such as 5%",
        Some(concat!("^([+-]?", quantity!(), "|[^% ]+%+)$"));
    /// A duration that is not negative, as a value in a map of strings.
    GracePeriod = "grace-period", "a duration such as 1m30s", Some(DURATION);
    /// A whole percentage (`pkg/kubelet/cm/container_manager.go` ParseQOSReserved).
    Percent = "percent", "a whole percentage such as 50%", Some("^[+-]?[0-9]+%$");
    /// A quantity that is not negative, as a value in a map of strings.
    Reservation = "reservation", "a quantity such as 500m or 1Gi", Some(QUANTITY);
    /// A number of bytes, as a quantity in a string.
    Size = "size", "a quantity such as 10Mi", Some(concat!("^([+-]?", quantity!(), ")?$"));
    /// A boolean in a string (`strconv.ParseBool`).
    BooleanText = "boolean-text", "a boolean in quotes", Some("^(1|t|T|TRUE|true|True|0|f|F|FALSE|false|False)$");
    /// A boolean or a whole number in a string.
    BooleanOrNumberText = "boolean-or-number-text", "a boolean or a whole number in quotes", None;
    /// A minor version of Kubernetes.
    MinorVersion = "minor-version", "a version such as 1.35", Some(r"^([0-9]+\.[0-9]+)?$");
    /// The name of a sysctl, or a prefix of names.
    Sysctl = "sysctl", "a sysctl, or a prefix of sysctls with * at the end", None;
    /// A name with an optional domain before it.
    QualifiedName = "qualified-name", "a name such as dedicated or example.com/dedicated",
        Some(concat!("^([a-z0-9.-]+/)?", label!(), "$"));
    /// A label value.
    LabelValue = "label-value", "up to 63 letters, digits and ._-", Some(concat!("^(", label!(), ")?$"));
    /// A field that must be omitted or null.
    Unset = "unset", "must be omitted", None;
    /// An image without a tag and a digest.
    Image = "image", "an image without tag and digest, or a path and /*", None;
    /// A pattern for the names of source files.
    FilePattern = "file-pattern", "a pattern for file names", Some("^[^=,]+$");
    /// A host and port, or a gRPC target.
    HostPort = "host-port", "host:port, or an address with dns, unix or unix-abstract", None;
    /// The socket of a container runtime.
    Endpoint = "endpoint", "a socket such as unix:///run/containerd/containerd.sock", None;
    /// A media type.
    MediaType = "media-type", "a media type", None;
    /// The value of an HTTP header.
    HeaderValue = "header-value", "the value of an HTTP header", None;
    /// A 64-bit whole number; without a format whole numbers have 32 bits.
    Int64 = "int64", "a 64-bit whole number", None;
    /// An unsigned 32-bit whole number.
    Uint32 = "uint32", "an unsigned 32-bit whole number", None;
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
    use crate::fields;

    #[test]
    fn every_format_has_a_field() {
        for format in Format::ALL {
            assert_eq!(Format::read(format.name()), Some(*format));
            assert!(fields::all().any(|field| field.format == Some(*format)), "{}", format.name());
        }
        assert_eq!(Format::read("paths"), None);
    }
}
