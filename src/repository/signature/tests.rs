//! Tests with real signatures of ssh-keygen and gpg (`tests/data/signatures`), and with modified ones.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use ring::digest;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};

use super::packets::{SIGNATURE, SUBKEY, key_of, packets, put_string, unconfirmed};
use super::ssh::BEGIN;
use super::*;

/// The commit date of the payload.
const JUNE: i64 = 1_717_200_000;
const FEBRUARY: i64 = 1_706_745_600;

macro_rules! data {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/signatures/", $name))
    };
}

const PAYLOAD: &str = data!("payload");
const ALLOWED: &str = data!("allowed_signers");

/// The installed programs. Tests fail without them, because they are required to check signatures.
fn programs() -> Programs {
    Programs { path: std::env::var_os("PATH").unwrap_or_default(), temporary: std::env::temp_dir() }
}

fn signers(text: &str) -> Signers {
    Signers::parse(text, programs()).expect("allowed signers")
}

/// The payload as a commit with a signature.
fn commit(payload: &[u8], signature: &[u8]) -> Vec<u8> {
    let end = payload.windows(2).position(|window| window == b"\n\n").unwrap_or(payload.len());
    let signature = signature.strip_suffix(b"\n").unwrap_or(signature);
    let lines: Vec<&[u8]> = signature.split(|byte| *byte == b'\n').collect();
    [&payload[..end], b"\ngpgsig ", &lines.join(&b"\n "[..]), &payload[end..]].concat()
}

fn verify_at(signers: &Signers, signature: &str, payload: &str, time: i64) -> Result<Signer, Unverified> {
    signers.verify(&commit(payload.as_bytes(), signature.as_bytes()), time)
}

fn verify(signers: &Signers, signature: &str) -> Result<Signer, Unverified> {
    verify_at(signers, signature, PAYLOAD, JUNE)
}

/// The reason why a signature is refused.
fn refusal(signers: &Signers, signature: &str) -> String {
    verify(signers, signature).expect_err("must be refused").to_string()
}

#[test]
fn accepts_signatures_of_ssh_keygen() {
    let signers = signers(ALLOWED);
    for (signature, name) in [
        (data!("ssh-ed.sig"), "ed@example.com"),
        (data!("ssh-sha256.sig"), "ed@example.com"),
        (data!("ssh-p256.sig"), "p256@example.com"),
        (data!("ssh-p384.sig"), "p384@example.com"),
        (data!("ssh-rsa.sig"), "rsa@example.com"),
        (data!("ssh-rsa-sha256.sig"), "rsa@example.com"),
    ] {
        let signer = verify(&signers, signature).expect(name);
        assert_eq!((signer.name.as_str(), signer.kind), (name, Kind::Ssh));
        assert!(signer.fingerprint.starts_with("SHA256:"), "{signer}");
        // The signature does not match another commit.
        let other = PAYLOAD.replace("Raise", "Lower");
        let other = verify_at(&signers, signature, &other, JUNE);
        assert_eq!(other, Err(Unverified::Mismatch { key: signer.fingerprint }));
    }
}

#[test]
fn refuses_invalid_ssh_signatures_with_a_reason() {
    let signers = signers(ALLOWED);
    insta::assert_snapshot!(
        [
            refusal(&signers, data!("ssh-other.sig")),
            refusal(&signers, data!("ssh-namespace.sig")),
            refusal(&signers, data!("ssh-rsa1024.sig")),
            refusal(&signers, data!("ssh-p521.sig")),
            refusal(&signers, data!("ssh-certificate.sig")),
            refusal(&signers, &with_sha1(data!("ssh-rsa.sig"))),
            refusal(&signers, data!("pgp-alice.sig")),
        ]
        .join("\n")
    );
}

#[test]
fn git_fetches_nothing_during_a_check() {
    let programs = programs();
    let isolated = isolated::Isolated::new(&programs, PAYLOAD.as_bytes()).expect("a folder");
    let command = isolated.command("git".as_ref());
    let value = command.get_envs().find(|(name, _)| *name == "GIT_NO_LAZY_FETCH").and_then(|(_, value)| value);
    assert_eq!(value, Some("1".as_ref()));
}

/// The signature, modified to claim SHA-1.
fn with_sha1(armour: &str) -> String {
    let bytes = bytes_of(armour);
    let (new, old) = (b"\x00\x00\x00\x07ssh-rsa", b"\x00\x00\x00\x0crsa-sha2-512");
    let at = bytes.windows(old.len()).position(|window| window == old).expect("its algorithm");
    // One string holds the algorithm and the signature. Its length precedes both.
    let length = u32::from_be_bytes(bytes[at - 4..at].try_into().expect("a length")) - 5;
    let mut made = bytes[..at - 4].to_vec();
    made.extend(length.to_be_bytes());
    made.extend(new);
    made.extend(&bytes[at + old.len()..]);
    armoured(&made)
}

fn bytes_of(armour: &str) -> Vec<u8> {
    let body: String = armour.lines().filter(|line| !line.starts_with('-')).collect();
    STANDARD.decode(body).expect("base64")
}

fn armoured(bytes: &[u8]) -> String {
    format!("{BEGIN}\n{}\n-----END SSH SIGNATURE-----\n", STANDARD.encode(bytes))
}

#[test]
fn checks_line_options_at_the_commit_date() {
    let with = |options: &str| {
        let line = ALLOWED.lines().next().expect("a line").replace("ssh-ed25519", &format!("{options} ssh-ed25519"));
        signers(&line)
    };
    let signature = data!("ssh-ed.sig");
    for options in [
        "namespaces=\"git\"",
        "namespaces=\"file,g*\"",
        "valid-after=\"20240601Z\"",
        "valid-before=\"20240601000001Z\"",
    ] {
        assert!(verify(&with(options), signature).is_ok(), "{options}");
    }
    for options in [
        "namespaces=\"file\"",
        "valid-after=\"20240601000001Z\"",
        "valid-before=\"20240601Z\"",
        "namespaces=\"*,!git\"",
    ] {
        let refused = verify(&with(options), signature);
        assert!(matches!(refused, Err(Unverified::NotAllowed { .. })), "{options}: {refused:?}");
    }
    // One of several lines for the same key is enough.
    let plain = ALLOWED.lines().next().expect("a line");
    let both = format!("{}\n{plain}", plain.replace("ssh-ed25519", "namespaces=\"file\" ssh-ed25519"));
    assert!(verify(&signers(&both), signature).is_ok());
}

#[test]
fn accepts_signatures_of_security_keys() {
    let random = SystemRandom::new();
    let ed25519 = Ed25519KeyPair::from_pkcs8(Ed25519KeyPair::generate_pkcs8(&random).expect("a key").as_ref())
        .expect("the same key");
    let p256 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("a key");
    let p256 =
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, p256.as_ref(), &random).expect("the same key");
    let strings = |strings: &[&[u8]]| {
        let mut bytes = Vec::new();
        strings.iter().for_each(|string| put_string(&mut bytes, string));
        bytes
    };
    let positive = |digits: &[u8]| {
        let digits: Vec<u8> = digits.iter().copied().skip_while(|digit| *digit == 0).collect();
        if digits[0] & 0x80 == 0 { digits } else { [vec![0], digits].concat() }
    };
    let ed_key = strings(&[b"sk-ssh-ed25519@openssh.com", ed25519.public_key().as_ref(), b"ssh:"]);
    let ec_key = strings(&[b"sk-ecdsa-sha2-nistp256@openssh.com", b"nistp256", p256.public_key().as_ref(), b"ssh:"]);
    let hash = digest::digest(&digest::SHA512, PAYLOAD.as_bytes());
    let message = [b"SSHSIG".to_vec(), strings(&[b"git", b"", b"sha512", hash.as_ref()])].concat();
    let flags = [1, 0, 0, 0, 7];
    let signed =
        [digest::digest(&digest::SHA256, b"ssh:").as_ref(), &flags, digest::digest(&digest::SHA256, &message).as_ref()]
            .concat();
    let ec_made = p256.sign(&random, &signed).expect("signed");
    let (r, s) = ec_made.as_ref().split_at(32);
    for (kind, key, made) in [
        ("sk-ssh-ed25519@openssh.com", ed_key, ed25519.sign(&signed).as_ref().to_vec()),
        ("sk-ecdsa-sha2-nistp256@openssh.com", ec_key, strings(&[&positive(r), &positive(s)])),
    ] {
        let signers = signers(&format!("sk@example.com {kind} {}", STANDARD.encode(&key)));
        let with = |flags: &[u8]| {
            let signature = [strings(&[kind.as_bytes(), &made]), flags.to_vec()].concat();
            let body =
                [b"SSHSIG\x00\x00\x00\x01".to_vec(), strings(&[&key, b"git", b"", b"sha512", &signature])].concat();
            verify(&signers, &armoured(&body))
        };
        assert!(with(&flags).is_ok(), "{kind}");
        assert!(matches!(with(&[1, 0, 0, 0, 8]), Err(Unverified::Mismatch { .. })), "{kind}");
        assert!(matches!(with(&[1]), Err(Unverified::Refused { .. })), "{kind}");
    }
}

#[test]
fn accepts_signatures_of_gpg() {
    for (key, signature, name) in [
        (data!("pgp-alice.asc"), data!("pgp-alice.sig"), "Alice <alice@example.com>"),
        (data!("pgp-rita.asc"), data!("pgp-rsa.sig"), "Rita <rita@example.com>"),
        (data!("pgp-p256.asc"), data!("pgp-p256.sig"), "P256 <p256@example.com>"),
        (data!("pgp-sub.asc"), data!("pgp-subkey.sig"), "Sub <sub@example.com>"),
    ] {
        let signers = signers(key);
        let signer = verify(&signers, signature).expect(name);
        assert_eq!((signer.name.as_str(), signer.kind), (name, Kind::OpenPgp));
        assert_eq!(signer.fingerprint.len(), 40, "{signer}");
        let other = PAYLOAD.replace("Raise", "Lower");
        let other = verify_at(&signers, signature, &other, JUNE);
        assert_eq!(other, Err(Unverified::Mismatch { key: signer.fingerprint }));
    }
}

#[test]
fn refuses_invalid_gpg_signatures_with_a_reason() {
    let all = [
        data!("pgp-alice.asc"),
        data!("pgp-rita.asc"),
        data!("pgp-weak.asc"),
        data!("pgp-dora.asc"),
        data!("pgp-lost.asc"),
        data!("pgp-revoked.asc"),
        data!("pgp-expired.asc"),
        data!("pgp-changed.asc"),
    ];
    let signers = signers(&all.concat());
    insta::assert_snapshot!(
        [
            refusal(&signers, data!("pgp-p256.sig")),
            refusal(&signers, data!("pgp-rsa1024.sig")),
            refusal(&signers, data!("pgp-dsa.sig")),
            refusal(&signers, data!("pgp-revoked-subkey.sig")),
            refusal(&signers, data!("pgp-revoked.sig")),
            refusal(&signers, data!("pgp-expired.sig")),
            refusal(&signers, data!("pgp-changed.sig")),
            refusal(&signers, data!("pgp-sha1.sig")),
            refusal(&signers, data!("pgp-text.sig")),
            refusal(&signers, data!("pgp-expiring.sig")),
            refusal(&signers, data!("pgp-two.sig")),
            refusal(&signers, data!("ssh-ed.sig")),
        ]
        .join("\n")
    );
}

#[test]
fn accepts_commits_before_the_expiry_of_the_key() {
    let signers = signers(data!("pgp-expired.asc"));
    let at = |time| verify_at(&signers, data!("pgp-expired.sig"), PAYLOAD, time);
    let end = FEBRUARY + 29 * 86_400;
    assert!(at(FEBRUARY).is_ok());
    assert!(at(end - 1).is_ok());
    assert!(at(end).is_err());
    // A backdated commit does not backdate its signature.
    assert!(at(0).is_ok());
    let signers = self::signers(data!("pgp-alice.asc"));
    assert!(verify_at(&signers, data!("pgp-alice.sig"), PAYLOAD, 0).is_ok());
}

#[test]
fn requires_confirmation_by_both_keys_for_a_subkey() {
    let (alice, sub) = (packets(data!("pgp-alice.asc")), packets(data!("pgp-sub.asc")));
    assert!(verify(&signers(&key_of(&sub)), data!("pgp-subkey.sig")).is_ok());
    // A stolen subkey of another key.
    let at = sub.iter().position(|(tag, _)| *tag == SUBKEY).expect("a subkey");
    let thief = [alice, sub[at..].to_vec()].concat();
    let why = refusal(&signers(&key_of(&thief)), data!("pgp-subkey.sig"));
    assert!(why.contains("not among the allowed signers"), "{why}");
    // A subkey without a back signature.
    let mut silent = sub;
    silent[at + 1].1 = unconfirmed(&silent[at + 1].1);
    assert!(verify(&signers(&key_of(&silent)), data!("pgp-subkey.sig")).is_err());
}

#[test]
fn respects_a_revocation_in_any_copy_of_the_key() {
    for (revoked, signature) in
        [(data!("pgp-revoked.asc"), data!("pgp-revoked.sig")), (data!("pgp-lost.asc"), data!("pgp-revoked-subkey.sig"))]
    {
        let mut fresh = packets(revoked);
        // Signature types 0x20 and 0x28 revoke a key and a subkey.
        fresh.retain(|(tag, body)| *tag != SIGNATURE || !matches!(body[1], 0x20 | 0x28));
        let fresh = key_of(&fresh);
        assert!(verify(&signers(&fresh), signature).is_ok());
        for both in [format!("{fresh}\n{revoked}"), format!("{revoked}\n{fresh}")] {
            let why = refusal(&signers(&both), signature);
            assert!(why.ends_with("is revoked"), "{why}");
        }
    }
}

#[test]
fn accepts_copies_of_a_key() {
    for (key, signature) in
        [(data!("pgp-alice.asc"), data!("pgp-alice.sig")), (data!("pgp-sub.asc"), data!("pgp-subkey.sig"))]
    {
        let one = verify(&signers(key), signature).expect("good");
        assert_eq!(verify(&signers(&format!("{key}\n{key}")), signature), Ok(one));
    }
}

#[test]
fn reads_both_kinds_of_keys_from_one_file() {
    let text = format!("# people\r\n{}\r\n\r\n{ALLOWED}", data!("pgp-alice.asc").replace('\n', "\r\n"));
    let signers = signers(&text);
    assert!(verify(&signers, data!("ssh-ed.sig")).is_ok());
    assert!(verify(&signers, data!("pgp-alice.sig")).is_ok());
}

#[test]
fn reports_all_errors_of_a_file_by_line() {
    let private = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----";
    let cut = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmDME";
    let text = format!("# comment\na@b\n{private}\nc@d cert-authority ssh-ed25519 AAAA\n{ALLOWED}\n{cut}\n");
    let wrong = Signers::parse(&text, programs()).expect_err("wrong");
    let lines: Vec<String> = wrong.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(lines.join("\n"));
    for empty in ["", "\n", "# nobody\n", "\u{feff}"] {
        assert!(
            Signers::parse(empty, programs()).is_err_and(|wrong| wrong[0].message.contains("contains no key")),
            "{empty:?}"
        );
    }
}

#[test]
fn refuses_malformed_signatures_with_a_reason() {
    let signers = signers(ALLOWED);
    let two = format!("{}{}", data!("ssh-ed.sig"), data!("pgp-alice.sig"));
    insta::assert_snapshot!(
        [
            refusal(&signers, ""),
            refusal(&signers, "-----BEGIN SIGNED MESSAGE-----\nMIA=\n-----END SIGNED MESSAGE-----\n"),
            refusal(&signers, &two),
            refusal(&signers, &format!("{BEGIN}\nAAAA\n-----END SSH SIGNATURE-----")),
            refusal(&signers, &format!("{BEGIN}\nAAAA")),
            refusal(&signers, &data!("ssh-ed.sig").replacen("U1NIU0lHAAAAAQ", "U1NIU0lHAAAAAg", 1)),
        ]
        .join("\n")
    );
    assert_eq!(signers.verify(&commit(PAYLOAD.as_bytes(), &[0xff]), 0), Err(Unverified::UnknownFormat));
    assert_eq!(signers.verify(PAYLOAD.as_bytes(), 0), Err(Unverified::Unsigned));
}

#[test]
fn names_a_missing_program_and_its_fix() {
    for (file, signature, says) in [
        (ALLOWED, data!("ssh-ed.sig"), "the program ssh-keygen is not installed; install OpenSSH"),
        (data!("pgp-alice.asc"), data!("pgp-alice.sig"), "the program gpg is not installed; install GnuPG"),
    ] {
        let none = Programs { path: "/nonexistent".into(), temporary: std::env::temp_dir() };
        let why = verify(&Signers::parse(file, none).expect("allowed signers"), signature).expect_err("no programs");
        let said = format!("{why}; {}", why.help());
        assert!(said.contains(says), "{said}");
    }
    let nowhere = Programs { temporary: "/nonexistent".into(), ..programs() };
    let why = verify(&Signers::parse(ALLOWED, nowhere).expect("allowed signers"), data!("ssh-ed.sig"));
    assert!(why.expect_err("no folder").help().contains("TMPDIR"));
}

#[test]
fn removes_temporary_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let programs = Programs { temporary: folder.path().to_owned(), ..programs() };
    for (file, signature) in [(ALLOWED, data!("ssh-ed.sig")), (data!("pgp-alice.asc"), data!("pgp-alice.sig"))] {
        let signers = Signers::parse(file, programs.clone()).expect("allowed signers");
        assert!(verify(&signers, signature).is_ok());
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
    }
    // No folder and no agent process remains.
    let processes = std::fs::read_dir("/proc").expect("processes").flatten();
    let mut commands = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    let folder = folder.path().display().to_string();
    assert!(!commands.any(|command| String::from_utf8_lossy(&command).contains(&folder)));
}

/// The valid signatures with their keys.
fn valid_signatures() -> Vec<(Signers, &'static str)> {
    let ssh = signers(ALLOWED);
    vec![
        (ssh.clone(), data!("ssh-ed.sig")),
        (ssh.clone(), data!("ssh-p256.sig")),
        (ssh.clone(), data!("ssh-p384.sig")),
        (ssh, data!("ssh-rsa.sig")),
        (signers(data!("pgp-alice.asc")), data!("pgp-alice.sig")),
        (signers(data!("pgp-rita.asc")), data!("pgp-rsa.sig")),
        (signers(data!("pgp-sub.asc")), data!("pgp-subkey.sig")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn refuses_changed_payloads(which in 0..7_usize, at in any::<prop::sample::Index>(), flip in 1..=255_u8) {
        let (signers, signature) = &valid_signatures()[which];
        let mut payload = PAYLOAD.as_bytes().to_vec();
        let at = at.index(payload.len());
        payload[at] ^= flip;
        prop_assert!(signers.verify(&commit(&payload, signature.as_bytes()), JUNE).is_err());
    }

    #[test]
    fn refuses_changed_ssh_signatures(which in 0..4_usize, at in any::<prop::sample::Index>(), flip in 1..=255_u8) {
        let (signers, signature) = &valid_signatures()[which];
        let mut bytes = bytes_of(signature);
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        prop_assert!(verify(signers, &armoured(&bytes)).is_err());
    }

    /// Unsigned parts of an OpenPGP signature, such as key hints and comments, may change. The signer must not.
    #[test]
    fn changed_gpg_signature_never_has_another_signer(
        which in 4..7_usize, at in any::<prop::sample::Index>(), flip in 1..=255_u8,
    ) {
        let (signers, signature) = &valid_signatures()[which];
        let signer = verify(signers, signature).expect("good");
        let mut bytes = signature.as_bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        if let Ok(found) = signers.verify(&commit(PAYLOAD.as_bytes(), &bytes), JUNE) {
            prop_assert_eq!(found, signer);
        }
    }

    #[test]
    fn arbitrary_texts_do_not_panic(file in "\\PC{0,200}", signature in any::<Vec<u8>>(), payload in any::<Vec<u8>>()) {
        let _ = Signers::parse(&file, programs());
        for (signers, _) in valid_signatures() {
            prop_assert!(signers.verify(&payload, JUNE).is_err());
            prop_assert!(signers.verify(&commit(&payload, &signature), JUNE).is_err());
        }
    }

    /// Valid texts with a replaced part.
    #[test]
    fn damaged_texts_do_not_panic(
        which in 0..7_usize, at in any::<prop::sample::Index>(), length in 0..40_usize, put in "[ -~\\n]{0,40}",
    ) {
        let damaged = |text: &str| {
            let at = at.index(text.len());
            format!("{}{put}{}", &text[..at], &text[(at + length).min(text.len())..])
        };
        let (signers, signature) = &valid_signatures()[which];
        let _ = verify(signers, &damaged(signature));
        for file in [ALLOWED, data!("pgp-alice.asc"), data!("pgp-sub.asc"), data!("pgp-rita.asc")] {
            let _ = Signers::parse(&damaged(file), programs());
        }
        if which < 4 {
            let _ = verify(signers, &armoured(damaged(&signature[..]).as_bytes()));
        }
    }
}
