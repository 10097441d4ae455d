//! What texts and numbers of KubeletConfiguration hold beyond their type: the `format` column of the table of fields.
//!
//! A pattern takes everything that a kubelet of any version takes, so that a schema made of it refuses nothing that runs;
//! it may take more. What is refused exactly is said by the rules.

/// A number without a sign, with or without a fraction, for [`concat!`].
macro_rules! number {
    () => {
        r"([0-9]+(\.[0-9]*)?|\.[0-9]+)"
    };
}

/// A quantity without a sign.
macro_rules! quantity {
    () => {
        concat!(number!(), "([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?")
    };
}

/// A duration as Go reads it (`time.ParseDuration`).
pub const DURATION: &str = concat!("^[+-]?(0|(", number!(), "(ns|us|µs|μs|ms|s|m|h))+)$");
/// A quantity (apimachinery `resource.ParseQuantity`).
pub const QUANTITY: &str = concat!("^[+-]?", quantity!(), "$");
/// The names of labels and the like (apimachinery `validation.IsQualifiedName`), without a length.
macro_rules! label {
    () => {
        "[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"
    };
}

macro_rules! formats {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal, $words:literal, $pattern:expr;)*) => {
        /// What a text or a number holds.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Format {
            $($(#[doc = $doc])* $variant,)*
        }

        impl Format {
            /// Every format.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Reads its name in the table.
            #[must_use]
            pub fn read(name: &str) -> Option<Self> {
                Some(match name {
                    $($name => Self::$variant,)*
                    _ => return None,
                })
            }

            /// Its name in the table.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// What it is, for a person.
            #[must_use]
            pub fn words(self) -> &'static str {
                match self {
                    $(Self::$variant => $words,)*
                }
            }

            /// A regular expression that its texts match, in ECMAScript's dialect; `None` where any text will do.
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
    /// A path of the host; relative ones start at the configuration file's folder.
    Path = "path", "a path on the node", None;
    /// A URL.
    Url = "url", "a URL", None;
    /// An IP address, which no kubelet checks when it reads the file.
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
    CipherSuite = "cipher-suite", "a cipher suite by its name in Go's crypto/tls", None;
    /// The number of a key exchange.
    Curve = "curve", "a key exchange by its number in Go's crypto/tls", None;
    /// A threshold of eviction (`pkg/kubelet/eviction/helpers.go` parseThresholdStatement).
    EvictionThreshold = "eviction-threshold", "a quantity such as 500Mi or a percentage such as 10%",
        Some(concat!("^([+]?", quantity!(), "|[^% ]+%+)$"));
    /// What an eviction frees at least (`pkg/kubelet/eviction/helpers.go` parseMinimumReclaims).
    EvictionReclaim = "eviction-reclaim", "a quantity such as 1Gi or a percentage such as 5%",
        Some(concat!("^([+-]?", quantity!(), "|[^% ]+%+)$"));
    /// A duration that is not negative, as text in a map of texts.
    GracePeriod = "grace-period", "a duration such as 1m30s", Some(DURATION);
    /// A whole percentage (`pkg/kubelet/cm/container_manager.go` ParseQOSReserved).
    Percent = "percent", "a whole percentage such as 50%", Some("^[+-]?[0-9]+%$");
    /// A quantity that is not negative, as text in a map of texts.
    Reservation = "reservation", "a quantity such as 500m or 1Gi", Some(QUANTITY);
    /// A number of bytes, as a quantity in text.
    Size = "size", "a quantity such as 10Mi", Some(concat!("^([+-]?", quantity!(), ")?$"));
    /// A boolean in text (`strconv.ParseBool`).
    BooleanText = "boolean-text", "a boolean in quotes", Some("^(1|t|T|TRUE|true|True|0|f|F|FALSE|false|False)$");
    /// A boolean or a whole number in text.
    BooleanOrNumberText = "boolean-or-number-text", "a boolean or a whole number in quotes", None;
    /// A minor version of Kubernetes.
    MinorVersion = "minor-version", "a version such as 1.35", Some(r"^([0-9]+\.[0-9]+)?$");
    /// The name of a sysctl, or a beginning of names.
    Sysctl = "sysctl", "a sysctl, or a beginning of names with * at the end", None;
    /// A name with an optional domain before it.
    QualifiedName = "qualified-name", "a name such as dedicated or example.com/dedicated",
        Some(concat!("^([a-z0-9.-]+/)?", label!(), "$"));
    /// A value of a label.
    LabelValue = "label-value", "up to 63 letters, digits and ._-", Some(concat!("^(", label!(), ")?$"));
    /// What must be left out, or be null.
    Unset = "unset", "must be left out", None;
    /// An image without tag and digest.
    Image = "image", "an image without tag and digest, or a path and /*", None;
    /// A pattern for names of source files.
    FilePattern = "file-pattern", "a pattern for file names", Some("^[^=,]+$");
    /// Host and port, or a target of gRPC.
    HostPort = "host-port", "host:port, or an address with dns, unix or unix-abstract", None;
    /// The socket of a container runtime.
    Endpoint = "endpoint", "a socket such as unix:///run/containerd/containerd.sock", None;
    /// A media type.
    MediaType = "media-type", "a media type", None;
    /// A value of an HTTP header.
    HeaderValue = "header-value", "the value of an HTTP header", None;
    /// A whole number of 64 bits; without a format they have 32.
    Int64 = "int64", "a whole number of 64 bits", None;
    /// A whole number of 32 bits without a sign.
    Uint32 = "uint32", "a whole number of 32 bits that is not negative", None;
}

impl Format {
    /// Whether every kubelet refuses the empty text, which a missing key stands for in an item of a list.
    #[must_use]
    pub fn refuses_empty(self) -> bool {
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
