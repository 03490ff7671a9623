"""Conformance cases of softmax."""

import math

from numbers_of_cases import INF, NAN, hashed, listed, text, ulp
from softmax_reference import Call

EMPTY_ROW = {"nan": 0, "zero": 1, "uniform": 2}


def finish_status(case, status, message):
    case["expect"] = {"status": status}
    if message:
        case["expect"]["text"] = message
    case["tolerance"] = {}
    return case


def chosen(total):
    """All positions of a small result, the ends and some between of a large one."""
    if total <= 256:
        return None
    return sorted({0, 1, total // 3, total // 2, total - 2, total - 1, *range(7, total, total // 24)})


def expect(case, name, values):
    at = chosen(len(values))
    if at is None:
        case["expect"][name] = [text(v) for v in values]
    else:
        case["expect"][name] = {"at": at, "values": [text(values[i]) for i in at]}


def tensor(dtype, shape, fill=None):
    made = {"dtype": dtype, "shape": list(shape)}
    if fill is not None:
        made["fill"] = fill
    return made


def case(name, x, y="float32", desc=None, lse=None, highest=None, fails=None, changes=None, **extras):
    """x and extras: (dtype, shape, fill). y, lse, highest: a dtype, or None for no such output."""
    inputs = {"x": tensor(*x)}
    inputs.update({k: tensor(*v) for k, v in extras.items()})
    shape = list(x[1])
    outputs = {}
    for key, dtype, out_shape in (("y", y, shape), ("lse", lse, shape[:-1]), ("max", highest, shape[:-1])):
        if dtype:
            outputs[key] = tensor(dtype, out_shape)
    made = {"name": name, "desc": desc or {}, "inputs": inputs, "outputs": outputs}
    for operand, change in (changes or {}).items():
        (inputs if operand in inputs else outputs)[operand].update(change)
    if fails:
        return finish_status(made, *fails)

    call = Call(shape, made["desc"], inputs, outputs.values())
    compute = "float64" if call.wide else "float32"
    log, policy = made["desc"].get("log", 0), made["desc"].get("empty_row", 0)
    softcap = made["desc"].get("softcap", 0)
    made["expect"], made["tolerance"] = {"status": "SLUICE_OK"}, {}
    rows = call.rows()
    # tanh's own rounding, which the header does not count: a few units of the largest capped logit.
    slack = 4 * ulp(compute, softcap) if softcap else 0.0
    if y:
        pairs = [row.y(j, log, policy) for row in rows for j in range(shape[-1])]
        values = [v for v, _ in pairs]
        expect(made, "y", values)
        finite = [abs(v) for v in values if math.isfinite(v)]
        if log:
            bound = {
                "ulp": 0 if y == compute else 0.5,
                "absolute": 4 * ulp(compute, max([1, *finite])) + 2 * slack,
            }
        elif y != compute:
            bound = {"ulp": 0.51, "absolute": 2 * slack}
        elif made["desc"].get("accuracy"):
            bound = {"ulp": 4, "absolute": 2 * slack}
        else:
            farthest = max((d for v, d in pairs if v > ulp(y, 0) / 2), default=0)
            bound = {"ulp": math.ceil(farthest) + 4, "absolute": 2 * slack}
        made["tolerance"]["y"] = bound
    if lse:
        values = [row.lse() for row in rows]
        expect(made, "lse", values)
        finite = [abs(v) for v in values if math.isfinite(v)]
        bound = {"ulp": 0 if lse == compute else 0.5, "absolute": 4 * ulp(compute, max([1, *finite])) + slack}
        made["tolerance"]["lse"] = bound
    if highest:
        expect(made, "max", [row.m for row in rows])
        made["tolerance"]["max"] = {"ulp": 0 if highest == compute else 0.5, "absolute": slack}
    return made


def cases():
    few = listed(1, 2, 3, -1, 0.5, 0.25, -4, 0)
    x24 = hashed(1, 24, -21)  # -4 to 4
    x11 = hashed(2, 11, -8)
    x8 = hashed(3, 8, -5)
    nan_row = listed(1, 2, NAN, 3, 1, INF, 2, 3, -INF, 0, 1, -INF)
    attention = (2, 3, 4, 6)  # batch, heads, queries, columns
    made = [
        case("plain_f32", ("float32", (2, 4), few)),
        case("plain_f64", ("float64", (2, 4), few), "float64", lse="float64"),
        case("plain_f16", ("float16", (2, 4), few), "float16"),
        case("plain_bf16", ("bfloat16", (2, 4), few), "bfloat16"),
        case("bf16_to_f32", ("bfloat16", (3, 100), x8), lse="float32", highest="float32"),
        case("f32_to_bf16", ("float32", (3, 100), x24), "bfloat16", lse="bfloat16", highest="bfloat16"),
        case("f16_to_f64", ("float16", (3, 20), x11), "float64"),
        case("f32_to_f16", ("float32", (3, 70), x24), "float16", lse="float16"),
        case("one_column", ("float32", (3, 1), listed(-5, 0, 1e30)), lse="float32", highest="float32"),
        case("one_axis", ("float32", (33,), x24), lse="float32"),
        case("long_row", ("float32", (1, 9001), x24), lse="float32", highest="float32"),
        case("many_rows", ("float32", (64, 33), x24), lse="float32"),
        case("six_axes", ("float32", (2, 1, 3, 2, 1, 5), x24), lse="float32"),
        case("ascending", ("float32", (1, 60), {"ascending": "1"}), lse="float32"),
        case("scale", ("float32", (3, 20), x24), desc={"scale": 0.37}, lse="float32", highest="float32"),
        case("scale_negative", ("float32", (3, 20), x24), desc={"scale": -2.5}, highest="float32"),
        case("softcap", ("float32", (3, 20), hashed(4, 24, -17)), desc={"softcap": 5.0}, lse="float32"),
        case("log", ("float32", (3, 20), x24), desc={"log": 1}, lse="float32"),
        case("log_f16", ("float16", (3, 20), x11), "float16", desc={"log": 1}),
        case("log_f64", ("float64", (3, 20), x24), "float64", desc={"log": 1}),
        case(
            "log_f64_to_f32_excluded",
            ("float64", (3, 20), x24),
            desc={"log": 1, "empty_row": 1},
            lse="float32",
            highest="float32",
            lengths=("int32", (3,), listed(20, 7, 0)),
        ),
        case("high_accuracy", ("float32", (3, 200), hashed(5, 24, -17)), desc={"accuracy": 1}),
        case("wide_spread", ("float32", (3, 200), hashed(5, 24, -17))),
        case("causal", ("float32", (2, 5, 4), x24), desc={"causal": 1}, lse="float32"),
        case("causal_bottom_right", ("float32", (2, 3, 6), x24), desc={"causal": 1, "diagonal": 1}),
        case(
            "causal_offset",
            ("float32", (5, 4), x24),
            desc={"causal": 1, "diagonal_offset": -2, "empty_row": 1},
        ),
        case("window", ("float32", (5, 8), x24), desc={"window": 2, "diagonal_offset": 1}),
        case("causal_window", ("float32", (5, 8), x24), desc={"causal": 1, "diagonal": 1, "window": 3}),
        case("alibi", ("float32", attention, x24), slopes=("float32", (3, 1), listed(0.5, 0.25, 0.125))),
        case(
            "mask",
            ("float32", attention, x24),
            mask=("float32", (4, 6), {"periodic": listed(0, -1.5, -INF, 2, 0)}),
        ),
        case("mask_bf16", ("float32", (2, 3, 5), x24), mask=("bfloat16", (2, 1, 5), x8), lse="float32"),
        case(
            "mask_hides_nan",
            ("float32", (2, 4), listed(1, NAN, 2, 0, INF, 1, -INF, 3)),
            mask=("float16", (2, 4), listed(0, -INF, 1, 0, -INF, 0, 0, 0)),
            lse="float32",
        ),
        case(
            "keep_bool",
            ("float32", (3, 8), x24),
            keep=("bool", (8,), {"periodic": listed(1, 0, 1)}),
            lse="float32",
        ),
        case(
            "keep_uint8",
            ("float32", (3, 8), x24),
            keep=("uint8", (3, 8), {"periodic": listed(255, 0, 2, 128, 0)}),
        ),
        case(
            "lengths_int32",
            ("float32", (4, 6), x24),
            desc={"empty_row": 1},
            lse="float32",
            lengths=("int32", (4,), listed(3, 100, -7, 0)),
        ),
        case(
            "lengths_int64", ("float32", (2, 2, 6), x24), lengths=("int64", (2, 1), listed(1, 1099511627776))
        ),
        case(
            "temperature",
            ("float32", (3, 20), x24),
            temperature=("float32", (3,), listed(0.5, 2, 0.01)),
            lse="float32",
        ),
        case(
            "sink",
            ("float32", (2, 3, 6), x24),
            sink=("float32", (3,), listed(0, 3.5, -INF)),
            lse="float32",
            highest="float32",
        ),
        case(
            "sink_alone",
            ("float32", (2, 3), listed(*[-INF] * 6)),
            sink=("float32", (), listed(1.25)),
            lse="float32",
            highest="float32",
        ),
        *[
            case(
                f"empty_row_{policy}{'_log' if log else ''}",
                ("float32", (3, 4), listed(*[-INF] * 4, 1, 2, -INF, 0, *[-INF] * 4)),
                desc={"empty_row": number, "log": log},
                lse="float32",
                highest="float32",
            )
            for policy, number in EMPTY_ROW.items()
            for log in (0, 1)
        ],
        case("lse_alone", ("float32", (5, 40), x24), None, lse="float32"),
        case("max_alone", ("bfloat16", (5, 40), x8), None, highest="float32"),
        case("nan_and_infinity", ("float32", (3, 4), nan_row), lse="float32", highest="float32"),
        case(
            "softcap_nan",
            ("float32", (3, 4), listed(*[NAN] * 4, 1, NAN, 2, 3, 1, 2, -INF, 0)),
            desc={"softcap": 5.0},
        ),
        case(
            "near_1e4",
            (
                "float32",
                (2, 5),
                listed(10000, 10001, 9999.5, 10003.25, 9000, -10000, -10001, -9999.5, -10003.25, -9000),
            ),
            lse="float32",
        ),
        case(
            "far_below_zero",
            ("float32", (2, 4), listed(-200, -201, -200.5, -203, -3e4, -3.1e4, -30000.25, -INF)),
            lse="float32",
        ),
        case("subnormal_results", ("float32", (1, 6), listed(0, -87.5, -95, -103, -103.875, -120))),
        case(
            "ends_of_the_range",
            (
                "float32",
                (2, 3),
                listed(3.4028234663852886e38, -3.4028234663852886e38, 0, *[-3.4028234663852886e38] * 3),
            ),
            highest="float32",
        ),
        case("no_columns", ("float32", (3, 0), []), lse="float32", highest="float32"),
        case("no_rows", ("float32", (0, 5), []), lse="float32"),
        case(
            "everything",
            ("float32", attention, x24),
            desc={
                "scale": 0.7,
                "softcap": 20.0,
                "causal": 1,
                "diagonal": 1,
                "diagonal_offset": 1,
                "window": 5,
                "empty_row": 1,
            },
            lse="float32",
            highest="float32",
            mask=("float32", (4, 6), {"periodic": listed(0, -1.5, 2)}),
            keep=("bool", (2, 1, 4, 6), {"periodic": listed(1, 1, 0, 1, 1)}),
            lengths=("int32", (2, 1, 1), listed(6, 4)),
            slopes=("float32", (3, 1), listed(0.5, 0.25, 0.125)),
            sink=("float32", (3, 1), listed(0.5, -1, 2)),
            temperature=("float32", (2, 3, 4), {"periodic": listed(1, 0.5, 2)}),
        ),
    ]
    x = ("float32", (2, 4), few)
    argument, shape, dtype = "SLUICE_INVALID_ARGUMENT", "SLUICE_INVALID_SHAPE", "SLUICE_UNSUPPORTED_DTYPE"
    made += [
        case(
            "fails_shape",
            x,
            fails=(shape, "softmax: y.shape[1] is 5, want 4"),
            changes={"y": {"shape": [2, 5]}},
        ),
        case("fails_axes", x, fails=(shape, "softmax: y.ndim is 1, want 2"), changes={"y": {"shape": [8]}}),
        case(
            "fails_dtype",
            ("int32", (2, 4), listed(*range(8))),
            fails=(dtype, "softmax: x.dtype is int32, want float32, float64, float16 or bfloat16"),
        ),
        case(
            "fails_device",
            x,
            fails=("SLUICE_INVALID_DEVICE", "softmax: x.device is (7, 0), want (1, 0)"),
            changes={"x": {"device": [7, 0]}},
        ),
        case(
            "fails_broadcast",
            x,
            mask=("float32", (3,), listed(0, 0, 0)),
            fails=(shape, "softmax: desc.mask.shape[0] is 3, want 1 or 4 to broadcast against x"),
        ),
        case(
            "fails_lengths_dtype",
            x,
            lengths=("float32", (2,), listed(1, 2)),
            fails=(dtype, "softmax: desc.lengths.dtype is float32, want int32 or int64"),
        ),
        case(
            "fails_keep_dtype",
            x,
            keep=("int32", (4,), listed(1, 0, 1, 1)),
            fails=(dtype, "softmax: desc.keep.dtype is int32, want bool, uint8 or int8"),
        ),
        case(
            "fails_no_output",
            x,
            None,
            fails=(argument, "softmax: y is NULL, want an output here or in desc.lse or desc.max"),
        ),
        case(
            "fails_causal", x, desc={"causal": 2}, fails=(argument, "softmax: desc.causal is 2, want 0 or 1")
        ),
        case(
            "fails_window",
            x,
            desc={"window": -1},
            fails=(argument, "softmax: desc.window is -1, want 0 to 2^61"),
        ),
        case(
            "fails_softcap",
            x,
            desc={"softcap": -1.0},
            fails=(argument, "softmax: desc.softcap is -1, want a finite number >= 0 in the compute type"),
        ),
        case(
            "fails_empty_row",
            x,
            desc={"empty_row": 3},
            fails=(argument, "softmax: desc.empty_row is 3, want 0 to 2"),
        ),
    ]
    return made
