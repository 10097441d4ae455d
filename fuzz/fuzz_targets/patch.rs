//! Fuzz target of the patches: a document, a line `%%`, and a merge patch or JSON patch. The result is that of the crate
//! json-patch, which works on JSON values without places.

#![no_main]

use kubelet_config::document::{
    Document, PatchKind, apply_json_patch, apply_merge_patch, json_patch_additions, json_patch_problems, kind_of_patch,
    without_nulls,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Some((target, patch)) = text.split_once("\n%%\n") else { return };
    let read = |text| {
        let parsed = Document::parse("f.yaml", text);
        parsed.document.filter(|_| parsed.findings.is_empty())
    };
    let (Some(target), Some(patch)) = (read(target), read(patch)) else { return };
    let (target, patch) = (without_nulls(target.root), patch.root);
    let mut expected = target.to_json();
    match kind_of_patch(&patch) {
        Err(_) => {}
        Ok(PatchKind::Merge) => {
            json_patch::merge(&mut expected, &patch.to_json());
            assert_eq!(apply_merge_patch(Some(target), &patch).to_json(), expected);
        }
        Ok(PatchKind::Json) => {
            let _ = (json_patch_problems(&patch), json_patch_additions(&patch));
            // Refusals differ: there are limits here, and `test` compares numbers there.
            if let Ok(patched) = apply_json_patch(target, &patch)
                && let Ok(operations) = serde_json::from_value::<json_patch::Patch>(patch.to_json())
                && json_patch::patch(&mut expected, &operations).is_ok()
            {
                assert_eq!(patched.to_json(), expected);
            }
        }
    }
});
