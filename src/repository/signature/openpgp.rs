//! Verification of OpenPGP signatures. `git verify-commit` runs gpg with a keyring of the allowed keys only; this
//! module evaluates gpg's status lines (doc/DETAILS of GnuPG).
//!
//! A commit must have exactly one signature, by an allowed key or its subkey. The key must be a signing key, not
//! revoked, and valid when the commit and its signature were made. All keys in the file are trusted; there is no web
//! of trust.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::super::program::{Programs, find};
use super::allowed_key::RSA_BITS;
use super::isolated::Isolated;
use super::{Kind, Signer, Unverified};

/// The first line of the armor.
pub(super) const BEGIN: &str = "-----BEGIN PGP SIGNATURE-----";

/// Starts no agent, contacts no server, trusts all keys in the keyring, and rejects SHA-1 and RIPEMD-160.
const CONFIGURATION: &str = "batch\nno-autostart\nno-auto-key-retrieve\nno-auto-key-locate\ndisable-dirmngr\n\
                             no-auto-check-trustdb\ntrust-model always\nrequire-cross-certification\nweak-digest SHA1\n\
                             weak-digest RIPEMD160\n";
/// gpg's result for a missing key (`GPG_ERR_NO_PUBKEY`).
const NO_KEY: &str = "9";

/// Removes the armor of public keys; other packets are an error. gpg requires a checksum in the armor, which newer
/// programs omit (RFC 9580, 6.1).
pub(super) fn without_armor(block: &str) -> Result<Vec<u8>, String> {
    // The body follows the headers and an empty line, and precedes the checksum and the last line.
    let body = block.lines().skip(1).skip_while(|line| !line.is_empty());
    let body: String = body.take_while(|line| !line.starts_with(['=', '-'])).collect();
    let bytes = STANDARD.decode(body).map_err(|error| error.to_string())?;
    // The tag of the first packet, in old or new format (RFC 9580, 4.2).
    let tag = bytes.first().map(|first| if first & 0x40 == 0 { (first & 0x3c) >> 2 } else { first & 0x3f });
    if tag == Some(6) { Ok(bytes) } else { Err("it contains no key".to_owned()) }
}

/// A key or subkey, as listed by `gpg --with-colons --list-keys`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct ListedKey {
    fingerprint: String,
    /// The fingerprint of the primary key.
    primary: String,
    /// gpg's letter for the validity: `r` for a revoked key.
    validity: String,
    bits: usize,
    algorithm: String,
    expires: Option<i64>,
    /// Whether the key is a signing key.
    signs: bool,
}

/// Parses gpg's key listing.
fn parse_listing(text: &str) -> Vec<ListedKey> {
    let (mut keys, mut primary): (Vec<ListedKey>, String) = (Vec::new(), String::new());
    for line in text.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        let field = |index: usize| fields.get(index).copied().unwrap_or_default();
        match field(0) {
            "pub" | "sub" => keys.push(ListedKey {
                // A primary key refers to itself. Its fingerprint is on the next line.
                primary: if field(0) == "sub" { primary.clone() } else { String::new() },
                validity: field(1).to_owned(),
                bits: field(2).parse().unwrap_or_default(),
                algorithm: field(3).to_owned(),
                expires: field(6).parse().ok(),
                signs: field(11).contains('s'),
                ..ListedKey::default()
            }),
            "fpr" => {
                if let Some(key) = keys.last_mut().filter(|key| key.fingerprint.is_empty()) {
                    key.fingerprint = field(9).to_owned();
                    if key.primary.is_empty() {
                        primary.clone_from(&key.fingerprint);
                        key.primary.clone_from(&key.fingerprint);
                    }
                }
            }
            _ => {}
        }
    }
    keys
}

impl ListedKey {
    /// Why signatures of the key are never accepted. `None` for a strong key. Algorithm numbers: RFC 9580, 9.1.
    fn weakness(&self) -> Option<String> {
        match self.algorithm.as_str() {
            "1" | "3" if self.bits < RSA_BITS => {
                Some(format!("its RSA key has {} bits; the minimum is {RSA_BITS}", self.bits))
            }
            "1" | "3" | "19" | "22" | "27" | "28" => None,
            _ => Some("nodecfg does not accept the algorithm of this key".to_owned()),
        }
    }

    fn had_expired(&self, when: i64) -> bool {
        self.expires.is_some_and(|expires| expires <= when)
    }
}

/// gpg's result for the signature.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct GpgStatus {
    /// A keyword such as `GOODSIG` and its arguments.
    verdict: (String, String),
    /// The fields of `VALIDSIG`: the signature is cryptographically valid, whatever the keyword.
    sound: Vec<String>,
}

/// Parses the status lines. There must be one signature, one result, and at most one `VALIDSIG`.
fn parse_status(text: &str) -> Result<GpgStatus, Unverified> {
    let mut status = GpgStatus::default();
    let (mut signatures, mut verdicts, mut sound) = (0, 0, 0);
    for line in text.lines() {
        // Other lines are not from gpg.
        let Some(line) = line.strip_prefix("[GNUPG:] ") else { continue };
        let (keyword, rest) = line.split_once(' ').unwrap_or((line, ""));
        match keyword {
            "NEWSIG" => signatures += 1,
            "GOODSIG" | "EXPKEYSIG" | "EXPSIG" | "REVKEYSIG" | "BADSIG" | "ERRSIG" => {
                verdicts += 1;
                status.verdict = (keyword.to_owned(), rest.to_owned());
            }
            "VALIDSIG" => {
                sound += 1;
                status.sound = rest.split(' ').map(str::to_owned).collect();
            }
            _ => {}
        }
    }
    match (signatures, verdicts, sound) {
        (1, 1, 0 | 1) => Ok(status),
        (2.., ..) => Err(Unverified::SeveralSignatures),
        _ => Err(Unverified::Malformed { why: "gpg does not recognize it".to_owned() }),
    }
}

/// Verifies a commit and returns the allowed signer.
pub(super) fn verify(
    keys: &[Vec<u8>],
    commit: &[u8],
    committed_at: i64,
    programs: &Programs,
) -> Result<Signer, Unverified> {
    let gpg = find("gpg", programs)?;
    let isolated = Isolated::new(programs, commit)?;
    isolated.write("gnupg/gpg.conf", CONFIGURATION.as_bytes())?;
    let mut listing = Vec::new();
    if !keys.is_empty() {
        let file = isolated.write("keys", &keys.concat())?;
        let mut import = isolated.command(gpg.as_os_str());
        let imported = isolated.run("gpg", import.args(["--quiet", "--import"]).arg(file))?;
        if !imported.status.success() {
            let output = nodecfg_contract::printable::remark(&String::from_utf8_lossy(&imported.err));
            tracing::warn!("gpg cannot import every key of the allowed signers: {output}");
        }
        let mut list = isolated.command(gpg.as_os_str());
        list.args([
            "--with-colons",
            "--fixed-list-mode",
            "--with-fingerprint",
            "--with-subkey-fingerprint",
            "--list-keys",
        ]);
        listing = isolated.run("gpg", &mut list)?.out;
    }
    let answer = isolated.verify_commit(&[("gpg.program", &gpg)])?;
    if answer.cut {
        return Err(Unverified::Malformed { why: "the output of gpg is too long".to_owned() });
    }
    let status = parse_status(&String::from_utf8_lossy(&answer.err))?;
    evaluate(&status, &parse_listing(&String::from_utf8_lossy(&listing)), answer.status.success(), committed_at)
}

/// Decides whether the signature is accepted. `good` is the result of git.
fn evaluate(status: &GpgStatus, keys: &[ListedKey], good: bool, committed_at: i64) -> Result<Signer, Unverified> {
    let (verdict, rest) = (status.verdict.0.as_str(), status.verdict.1.as_str());
    let (id, user) = rest.split_once(' ').unwrap_or((rest, ""));
    // The full fingerprint of the reported key, if gpg lists the key.
    let known = keys.iter().find(|key| key.fingerprint.ends_with(id));
    let named = known.map_or_else(|| id.to_owned(), |key| key.fingerprint.clone());
    if verdict == "BADSIG" {
        return Err(Unverified::Mismatch { key: named });
    }
    let fields: Vec<&str> = status.sound.iter().map(String::as_str).collect();
    // VALIDSIG <fingerprint> <date> <made> <expires> <version> <reserved> <key algorithm> <hash> <class> <primary>
    let &[print, _, made, expires, _, _, _, hash, class, primary, ..] = fields.as_slice() else {
        // ERRSIG <id> <key algorithm> <hash> <class> <time> <result> <fingerprint>
        let error: Vec<&str> = rest.split(' ').collect();
        let print = error.get(6).filter(|print| **print != "-").map_or(named, |print| (*print).to_owned());
        let hash = error.get(2).copied().unwrap_or_default();
        return Err(match (known, hash_flaw(hash)) {
            _ if error.get(5) == Some(&NO_KEY) => Unverified::UnknownSigner { kind: Kind::OpenPgp, key: print },
            (_, Some(why)) => Unverified::Algorithm { key: print, why },
            (Some(key), _) if !key.signs => {
                Unverified::Algorithm { key: print, why: "the key is not a signing key".to_owned() }
            }
            _ => Unverified::Refused {
                key: print,
                why: format!("gpg cannot check it (error {})", error.get(5).unwrap_or(&"")),
            },
        });
    };
    let key = keys.iter().find(|key| key.fingerprint == print && key.primary == primary);
    let main = keys.iter().find(|key| key.fingerprint == primary);
    let (Some(key), Some(main)) = (key, main) else {
        return Err(Unverified::UnknownSigner { kind: Kind::OpenPgp, key: print.to_owned() });
    };
    let algorithm = |why: String| Err(Unverified::Algorithm { key: print.to_owned(), why });
    if let Some(why) = key.weakness().or_else(|| hash_flaw(hash)) {
        return algorithm(why);
    }
    if class != "00" {
        let why = "it is not a signature of a binary document, as git creates".to_owned();
        return Err(Unverified::Malformed { why });
    }
    let user = nodecfg_contract::printable::one_line(&unescaped(user));
    let name = if user.is_empty() { "unknown user".to_owned() } else { user };
    let signer = Signer { name, kind: Kind::OpenPgp, fingerprint: print.to_owned() };
    let not_allowed = |why: &str| Err(Unverified::NotAllowed { signer: Box::new(signer.clone()), why: why.to_owned() });
    if expires != "0" || verdict == "EXPSIG" {
        return not_allowed("the signature expires, so the commit would be valid for a limited time only");
    }
    if verdict == "REVKEYSIG" || main.validity == "r" || key.validity == "r" {
        return not_allowed(if main.validity == "r" { "the key is revoked" } else { "the subkey is revoked" });
    }
    if !key.signs {
        return not_allowed("the key is not a signing key");
    }
    let Ok(made) = made.parse::<i64>() else {
        return Err(Unverified::Malformed { why: "its creation time is missing".to_owned() });
    };
    // A backdated commit does not backdate its signature.
    let when = committed_at.max(made);
    if main.had_expired(when) || key.had_expired(when) {
        return not_allowed("the key had expired");
    }
    match (verdict, good) {
        ("GOODSIG", true) => Ok(signer),
        // A key that expired after the commit is accepted. Git refuses it.
        ("EXPKEYSIG", _) if main.expires.or(key.expires).is_some() => Ok(signer),
        _ => Err(Unverified::Refused { key: print.to_owned(), why: format!("gpg reports {verdict}") }),
    }
}

/// Why a hash algorithm is not accepted. Numbers: RFC 9580, 9.5.
fn hash_flaw(number: &str) -> Option<String> {
    let name = match number {
        "8" | "9" | "10" | "11" | "12" | "14" => return None,
        "1" => "MD5",
        "2" => "SHA1",
        "3" => "RIPEMD160",
        _ => "an unknown hash",
    };
    Some(format!("it uses {name}, which is forgeable or unknown"))
}

/// Decodes bytes that gpg wrote as `%0A`.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.split_first_chunk::<2>().filter(|_| *first == b'%');
        let byte = code
            .and_then(|(digits, after)| Some((u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?, after)));
        let (byte, after) = byte.unwrap_or((*first, after));
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTING: &str = "tru:t:0:0:0:0:0:0\npub:-:255:22:4D1C1E6DAAE937B6:1704067200:::-:::cC:::::ed25519:::0:\n\
        fpr:::::::::AA4D1C1E6DAAE937B6:\nuid:-::::1704067200::AD66::Alice <alice@example.com>::::::::::0:\n\
        sub:-:255:22:2229D2007996AB6F:1704153600:1717300000:::::s:::::ed25519::\nfpr:::::::::BB2229D2007996AB6F:\n";
    const GOOD: &str = "[GNUPG:] NEWSIG\n[GNUPG:] GOODSIG 2229D2007996AB6F Al%69ce\n\
        [GNUPG:] VALIDSIG BB2229D2007996AB6F 2024-06-01 1717200000 0 4 0 22 8 00 AA4D1C1E6DAAE937B6\n";

    fn evaluated(text: &str, good: bool, at: i64) -> Result<String, String> {
        let keys = parse_listing(LISTING);
        let evaluated = parse_status(text).and_then(|status| evaluate(&status, &keys, good, at));
        evaluated.map(|signer| signer.to_string()).map_err(|why| why.to_string())
    }

    #[test]
    fn accepts_one_good_signature_of_a_listed_key() {
        assert_eq!(evaluated(GOOD, true, 0), Ok("Alice (OpenPGP key BB2229D2007996AB6F)".to_owned()));
        let expired = GOOD.replace("GOODSIG", "EXPKEYSIG");
        assert!(evaluated(&expired, false, 0).is_ok());
        for (text, good, at, says) in [
            (GOOD.to_owned(), false, 0, "gpg reports GOODSIG"),
            (GOOD.to_owned(), true, 1_717_300_000, "had expired"),
            (expired, false, 1_717_300_000, "had expired"),
            (GOOD.repeat(2), true, 0, "more than one"),
            (GOOD.replace("[GNUPG:] NEWSIG\n", ""), true, 0, "does not recognize"),
            (GOOD.replace("[GNUPG:] GOODSIG", "gpg: GOODSIG"), true, 0, "does not recognize"),
            (format!("{GOOD}[GNUPG:] BADSIG 2229D2007996AB6F x\n"), true, 0, "does not recognize"),
            (GOOD.replace("GOODSIG", "REVKEYSIG"), true, 0, "is revoked"),
            (GOOD.replace("GOODSIG", "BADSIG"), true, 0, "does not match"),
            (GOOD.replace("1717200000 0 4", "1717200000 1817200000 4"), true, 0, "the signature expires"),
            (GOOD.replace(" 8 00 ", " 8 01 "), true, 0, "binary document"),
            (GOOD.replace(" 8 00 ", " 2 00 "), true, 0, "it uses SHA1"),
            (GOOD.replace("VALIDSIG BB", "VALIDSIG CC"), true, 0, "not among the allowed"),
            // A subkey with the fingerprint of another primary key.
            (GOOD.replace("00 AA4D1C1E6DAAE937B6", "00 BB2229D2007996AB6F"), true, 0, "not among the allowed"),
            // The primary key, which is for certification only.
            (GOOD.replace("BB2229D2007996AB6F", "AA4D1C1E6DAAE937B6"), true, 0, "not a signing key"),
            ("[GNUPG:] NEWSIG\n[GNUPG:] ERRSIG 99 22 8 00 1 9 -\n".to_owned(), false, 0, "not among the allowed"),
            (String::new(), true, 0, "does not recognize"),
        ] {
            let refused = evaluated(&text, good, at).expect_err(says);
            assert!(refused.contains(says), "{says}: {refused}");
        }
    }

    #[test]
    fn accepts_blocks_of_public_keys_only() {
        let block =
            |body: &str| format!("-----BEGIN PGP PUBLIC KEY BLOCK-----\nComment: x\n\n{body}\n=abcd\n-----END\n");
        assert_eq!(without_armor(&block("mDME")), Ok(vec![0x98, 0x33, 0x04]));
        assert_eq!(without_armor(&block("xjME")), Ok(vec![0xc6, 0x33, 0x04]));
        // A secret key, a signature, and an empty body.
        for other in ["lQOY", "iHUE", ""] {
            assert_eq!(without_armor(&block(other)), Err("it contains no key".to_owned()), "{other}");
        }
        assert!(without_armor(&block("m!")).is_err());
    }
}
