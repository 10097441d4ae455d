//! Signatures of OpenPGP: `git verify-commit` has gpg check them with a keyring that holds the keys of the file and no
//! others. Here its status lines (doc/DETAILS of GnuPG) are judged.
//!
//! A signature counts when it is the only one, when a key of the file or a subkey that belongs to one made it, and when that
//! key says of itself that it signs, is not revoked, and was valid when the commit was made. There is no web of trust: what is
//! in the file is trusted.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::super::program::{Programs, find};
use super::allowed::RSA_BITS;
use super::isolated::Isolated;
use super::{Kind, Signer, Unverified};

/// How the armour begins.
pub(super) const BEGIN: &str = "-----BEGIN PGP SIGNATURE-----";

/// No agent is started and no server asked; what is in the keyring is trusted; SHA-1 counts nowhere.
const CONFIGURATION: &str = "batch\nno-autostart\nno-auto-key-retrieve\nno-auto-key-locate\ndisable-dirmngr\n\
                             no-auto-check-trustdb\ntrust-model always\nrequire-cross-certification\nweak-digest SHA1\n\
                             weak-digest RIPEMD160\n";
/// The result with which gpg says that it has no such key (`GPG_ERR_NO_PUBKEY`).
const NO_KEY: &str = "9";

/// Takes the armour off public keys. gpg wants a checksum there, which newer programs leave out (RFC 9580, 6.1).
pub(super) fn without_armour(block: &str) -> Result<Vec<u8>, String> {
    // After the headers and an empty line; before the checksum and the end.
    let body = block.lines().skip(1).skip_while(|line| !line.is_empty());
    let body: String = body.take_while(|line| !line.starts_with(['=', '-'])).collect();
    let bytes = STANDARD.decode(body).map_err(|error| error.to_string())?;
    // A packet's tag, in the old format or the new one (RFC 9580, 4.2).
    let tag = bytes.first().map(|first| if first & 0x40 == 0 { (first & 0x3c) >> 2 } else { first & 0x3f });
    if tag == Some(6) { Ok(bytes) } else { Err("it holds no key".to_owned()) }
}

/// A key or subkey, as `gpg --with-colons --list-keys` lists it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Listed {
    fingerprint: String,
    /// That of the key itself, for a subkey.
    primary: String,
    validity: String,
    bits: usize,
    algorithm: String,
    expires: Option<i64>,
    /// Whether it says that it is for signing.
    signs: bool,
}

/// Reads the listing.
fn listed(text: &str) -> Vec<Listed> {
    let (mut keys, mut primary): (Vec<Listed>, String) = (Vec::new(), String::new());
    for line in text.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        let field = |index: usize| fields.get(index).copied().unwrap_or_default();
        match field(0) {
            "pub" | "sub" => keys.push(Listed {
                // A key belongs to itself, and its fingerprint is on the next line.
                primary: if field(0) == "sub" { primary.clone() } else { String::new() },
                validity: field(1).to_owned(),
                bits: field(2).parse().unwrap_or_default(),
                algorithm: field(3).to_owned(),
                expires: field(6).parse().ok(),
                signs: field(11).contains('s'),
                ..Listed::default()
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

impl Listed {
    /// Why a signature of the key is worth nothing, whoever holds it. The numbers are those of RFC 9580, 9.1.
    fn weakness(&self) -> Option<String> {
        match self.algorithm.as_str() {
            "1" | "3" if self.bits < RSA_BITS => {
                Some(format!("its RSA key has {} bits, and {RSA_BITS} are the least", self.bits))
            }
            "1" | "3" | "19" | "22" | "27" | "28" => None,
            _ => Some("nodecfg does not accept keys of its algorithm".to_owned()),
        }
    }

    fn had_expired(&self, when: i64) -> bool {
        self.expires.is_some_and(|expires| expires <= when)
    }
}

/// What gpg says of the one signature.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Status {
    /// `GOODSIG` and its like, and what follows.
    verdict: (String, String),
    /// The fields of `VALIDSIG`: the signature is sound, whatever else speaks against it.
    sound: Vec<String>,
}

/// Reads the status lines. There must be one signature and one verdict on it.
fn status(text: &str) -> Result<Status, Unverified> {
    let mut status = Status::default();
    let (mut signatures, mut verdicts, mut sound) = (0, 0, 0);
    for line in text.lines() {
        // Anything else is not gpg's.
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
        _ => Err(Unverified::Malformed { why: "gpg does not understand it".to_owned() }),
    }
}

/// The allowed signer who signed the commit.
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
            let said = nodecfg_contract::printable::remark(&String::from_utf8_lossy(&imported.err));
            tracing::warn!("gpg does not take every key of the allowed signers: {said}");
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
        return Err(Unverified::Malformed { why: "gpg has too much to say of it".to_owned() });
    }
    let status = status(&String::from_utf8_lossy(&answer.err))?;
    judge(&status, &listed(&String::from_utf8_lossy(&listing)), answer.status.success(), committed_at)
}

/// Whether the signature counts. `good` is git's own verdict.
fn judge(status: &Status, keys: &[Listed], good: bool, committed_at: i64) -> Result<Signer, Unverified> {
    let (verdict, rest) = (status.verdict.0.as_str(), status.verdict.1.as_str());
    let (id, user) = rest.split_once(' ').unwrap_or((rest, ""));
    // The fingerprint of the key that the verdict names, as far as gpg knows it.
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
                Unverified::Algorithm { key: print, why: "the key is not for signing".to_owned() }
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
        let why = "it is not over the bytes of a document, as git's are".to_owned();
        return Err(Unverified::Malformed { why });
    }
    let user = nodecfg_contract::printable::one_line(&unescaped(user));
    let name = if user.is_empty() { "somebody without a user id".to_owned() } else { user };
    let signer = Signer { name, kind: Kind::OpenPgp, fingerprint: print.to_owned() };
    let not_allowed = |why: &str| Err(Unverified::NotAllowed { signer: Box::new(signer.clone()), why: why.to_owned() });
    if expires != "0" || verdict == "EXPSIG" {
        return not_allowed("the signature is made to expire, so that a commit would count for some time only");
    }
    if verdict == "REVKEYSIG" || main.validity == "r" || key.validity == "r" {
        return not_allowed(if main.validity == "r" { "the key is revoked" } else { "the subkey is revoked" });
    }
    if !key.signs {
        return not_allowed("the key is not for signing");
    }
    let Ok(made) = made.parse::<i64>() else {
        return Err(Unverified::Malformed { why: "it does not say when it was made".to_owned() });
    };
    // Whoever dates a commit back does not date its signature back.
    let when = committed_at.max(made);
    if main.had_expired(when) || key.had_expired(when) {
        return not_allowed("the key had expired");
    }
    match (verdict, good) {
        // It has expired since: git refuses it, and the commit's date decides here.
        ("GOODSIG", true) => Ok(signer),
        ("EXPKEYSIG", _) if main.expires.or(key.expires).is_some() => Ok(signer),
        _ => Err(Unverified::Refused { key: print.to_owned(), why: format!("gpg says {verdict}") }),
    }
}

/// Why a hash cannot count, by its number in RFC 9580, 9.5.
fn hash_flaw(number: &str) -> Option<String> {
    let name = match number {
        "8" | "9" | "10" | "11" | "12" | "14" => return None,
        "1" => "MD5",
        "2" => "SHA1",
        "3" => "RIPEMD160",
        _ => "an unknown hash",
    };
    Some(format!("it is made with {name}, which can be forged or is not known"))
}

/// A text in which gpg wrote odd bytes as `%0A`.
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

    fn judged(text: &str, good: bool, at: i64) -> Result<String, String> {
        let keys = listed(LISTING);
        let judged = status(text).and_then(|status| judge(&status, &keys, good, at));
        judged.map(|signer| signer.to_string()).map_err(|why| why.to_string())
    }

    #[test]
    fn one_good_signature_of_a_listed_key_counts() {
        assert_eq!(judged(GOOD, true, 0), Ok("Alice (OpenPGP key BB2229D2007996AB6F)".to_owned()));
        let expired = GOOD.replace("GOODSIG", "EXPKEYSIG");
        assert!(judged(&expired, false, 0).is_ok());
        for (text, good, at, says) in [
            (GOOD.to_owned(), false, 0, "gpg says GOODSIG"),
            (GOOD.to_owned(), true, 1_717_300_000, "had expired"),
            (expired, false, 1_717_300_000, "had expired"),
            (GOOD.repeat(2), true, 0, "more than one"),
            (GOOD.replace("[GNUPG:] NEWSIG\n", ""), true, 0, "does not understand"),
            (GOOD.replace("[GNUPG:] GOODSIG", "gpg: GOODSIG"), true, 0, "does not understand"),
            (format!("{GOOD}[GNUPG:] BADSIG 2229D2007996AB6F x\n"), true, 0, "does not understand"),
            (GOOD.replace("GOODSIG", "REVKEYSIG"), true, 0, "is revoked"),
            (GOOD.replace("GOODSIG", "BADSIG"), true, 0, "does not match"),
            (GOOD.replace("1717200000 0 4", "1717200000 1817200000 4"), true, 0, "made to expire"),
            (GOOD.replace(" 8 00 ", " 8 01 "), true, 0, "not over the bytes"),
            (GOOD.replace(" 8 00 ", " 2 00 "), true, 0, "made with SHA1"),
            (GOOD.replace("VALIDSIG BB", "VALIDSIG CC"), true, 0, "not among the allowed"),
            // A subkey of one key, with the fingerprint of another.
            (GOOD.replace("00 AA4D1C1E6DAAE937B6", "00 BB2229D2007996AB6F"), true, 0, "not among the allowed"),
            // The key itself, which is for certification alone.
            (GOOD.replace("BB2229D2007996AB6F", "AA4D1C1E6DAAE937B6"), true, 0, "not for signing"),
            ("[GNUPG:] NEWSIG\n[GNUPG:] ERRSIG 99 22 8 00 1 9 -\n".to_owned(), false, 0, "not among the allowed"),
            (String::new(), true, 0, "does not understand"),
        ] {
            let refused = judged(&text, good, at).expect_err(says);
            assert!(refused.contains(says), "{says}: {refused}");
        }
    }

    #[test]
    fn only_blocks_of_public_keys_are_taken() {
        let block =
            |body: &str| format!("-----BEGIN PGP PUBLIC KEY BLOCK-----\nComment: x\n\n{body}\n=abcd\n-----END\n");
        assert_eq!(without_armour(&block("mDME")), Ok(vec![0x98, 0x33, 0x04]));
        assert_eq!(without_armour(&block("xjME")), Ok(vec![0xc6, 0x33, 0x04]));
        // A secret key, and a signature.
        for other in ["lQOY", "iHUE", ""] {
            assert_eq!(without_armour(&block(other)), Err("it holds no key".to_owned()), "{other}");
        }
        assert!(without_armour(&block("m!")).is_err());
    }
}
