"""Conformance cases of softmax_backward, and the reference that its expectations come from."""

import itertools
import math
from decimal import Decimal

from numbers_of_cases import INF, NAN, exp, hashed, listed, round_to
from softmax import expect, finish_status, tensor
from softmax_reference import Call, Row, broadcast_index, count

OF_OPERAND = ("mask", "slopes", "sink", "temperature")


def gradients(call, desc, from_y):
    """dx and the gradients of the broadcast operands, as Decimals or NaN, by name."""
    shape, rows = call.shape, list(itertools.product(*map(range, call.shape[:-1])))
    out = {"dx": []}
    for name in OF_OPERAND:
        if name in call.inputs:
            out["d_" + name] = [Decimal(0)] * count(call.inputs[name][0])
    log, policy = desc.get("log", 0), desc.get("empty_row", 0)
    scale = Decimal(round_to("float64" if call.wide else "float32", desc.get("scale", 0) or 1.0))

    def add(name, index, term):
        if name in out:
            at = broadcast_index(call.inputs[name[2:]][0], index)
            out[name][at] += term

    for index in rows:
        row = Row(call, index)
        lse = call.at("lse", index) if "lse" in call.inputs else None
        d_lse = Decimal(call.at("d_lse", index)) if "d_lse" in call.inputs else Decimal(0)
        columns = range(shape[-1])
        dy = [Decimal(call.at("dy", (*index, j))) if "dy" in call.inputs else Decimal(0) for j in columns]
        empty = lse == -INF
        if empty and policy == 0:
            nan = Decimal("nan")
            out["dx"] += [nan for _ in columns]
            add("d_sink", index, nan)
            add("d_slopes", index, nan)
            add("d_temperature", index, nan)
            for j in columns:
                add("d_mask", (*index, j), nan)
            continue
        p = []
        for j in columns:
            if row.v[j] is None or empty:
                p.append(Decimal(0))
            elif from_y:
                y = call.at("y", (*index, j))
                p.append(exp(y) if log else Decimal(y))
            else:
                p.append(exp(Decimal(row.v[j]) - Decimal(lse)) if row.v[j] != -INF else Decimal(0))
        counted = [row.v[j] is not None and not empty and (log or p[j] != 0) for j in columns]
        total = sum((dy[j] if log else p[j] * dy[j] for j in columns if counted[j]), Decimal(0))
        temperature = Decimal(row.temperature)
        for j in columns:
            g = Decimal(0)
            if counted[j]:
                g = dy[j] - p[j] * (total - d_lse) if log else p[j] * (dy[j] - total + d_lse)
                if g and row.v[j] != -INF:
                    add("d_temperature", index, -g * Decimal(row.v[j]) / temperature)
            u = g / temperature
            add("d_mask", (*index, j), u)
            add("d_slopes", index, -u * row.distance[j])
            out["dx"].append(u * scale * row.cap[j])
        if row.sink != -INF and not empty:
            add("d_sink", index, exp(Decimal(row.sink) - Decimal(lse)) * (d_lse - total))
    return {name: [NAN if v.is_nan() else float(v) for v in values] for name, values in out.items()}


def case(
    name,
    x,
    dy="float32",
    wants=("dx",),
    saved=("x", "lse"),
    desc=None,
    d_lse=None,
    lse="float32",
    y="float32",
    fails=None,
    without=(),
    workspace=None,
    **extras,
):
    """x: (dtype, shape, fill). dy, lse, y: dtypes of what the forward call left; d_lse: a dtype or None."""
    desc = desc or {}
    shape = list(x[1])
    rows_shape = shape[:-1]
    operands = {k: tensor(*v) for k, v in extras.items()}
    forward = Call(
        shape, desc, {"x": tensor(*x), **operands}, [tensor(lse, rows_shape)] if "lse" in saved else []
    )
    made_rows = forward.rows()
    log, policy = desc.get("log", 0), desc.get("empty_row", 0)
    inputs = {}
    if dy:
        inputs["dy"] = tensor(dy, shape, hashed(11, 8, -6))
    if "x" in saved:
        inputs["x"] = tensor(*x)
    if "y" in saved:
        values = [row.y(j, log, policy)[0] for row in made_rows for j in range(shape[-1])]
        inputs["y"] = tensor(y, shape, listed(*(round_to(y, v) for v in values)))
    if "lse" in saved:
        inputs["lse"] = tensor(lse, rows_shape, listed(*(round_to(lse, row.lse()) for row in made_rows)))
    if d_lse:
        inputs["d_lse"] = tensor(d_lse, rows_shape, hashed(12, 8, -6))
    inputs.update(operands)
    outputs = {}
    for want in wants:
        like = "dx" if want == "dx" else want[2:]
        dtype, of_shape = (x[0], shape) if like == "dx" else (extras[like][0], extras[like][1])
        outputs[want] = tensor(dtype, of_shape)
    made = {"name": name, "desc": desc, "inputs": inputs, "outputs": outputs}
    if workspace is not None:
        made["workspace"] = workspace
    for operand in without:
        inputs.pop(operand, None)
        outputs.pop(operand, None)
    if fails:
        return finish_status(made, *fails)

    call = Call(
        shape, desc, {"x": tensor(x[0], shape, listed(*[0] * count(shape))), **inputs}, outputs.values()
    )
    from_y = "y" in inputs and set(wants) == {"dx"} and not desc.get("softcap")
    found = gradients(call, desc, from_y)
    made["expect"], made["tolerance"] = {"status": "SLUICE_OK"}, {}
    unit = 2.0**-52 if call.wide else 2.0**-23
    for want in outputs:
        expect(made, want, found[want])
        finite = [abs(v) for v in found[want] if math.isfinite(v)]
        compute = "float64" if call.wide else "float32"
        # Gradients are small differences of larger terms: what rounding these costs is absolute.
        bound = {
            "ulp": 0 if outputs[want]["dtype"] == compute else 0.51,
            "absolute": 16 * unit * max([1.0, *finite]),
        }
        made["tolerance"][want] = bound
    return made


def cases():
    x24, x8 = hashed(1, 24, -21), hashed(3, 8, -5)
    x = ("float32", (3, 20), x24)
    attention = ("float32", (2, 3, 4, 6), x24)
    slopes = ("float32", (3, 1), listed(0.5, 0.25, 0.125))
    every = ("dx", "d_mask", "d_slopes", "d_sink", "d_temperature")
    made = [
        case("from_y", x, saved=("y",)),
        case("from_lse", x),
        case("from_y_f64", ("float64", (3, 20), x24), "float64", saved=("y",), y="float64"),
        case("from_lse_f64", ("float64", (3, 20), x24), "float64", lse="float64"),
        case("from_y_bf16", ("bfloat16", (3, 20), x8), "bfloat16", saved=("y",), y="bfloat16"),
        case("from_lse_f16", ("float16", (3, 20), x8), "float16"),
        case("log_from_y", x, saved=("y",), desc={"log": 1}),
        case("log_from_lse", x, desc={"log": 1}),
        case("gradient_of_lse_too", x, d_lse="float32"),
        case("gradient_of_lse_alone", x, None, d_lse="float32"),
        case("scale", x, desc={"scale": -0.75}),
        case("softcap", x, desc={"scale": 0.5, "softcap": 3.0}),
        case("causal", ("float32", (2, 5, 4), x24), desc={"causal": 1, "diagonal": 1, "empty_row": 1}),
        case("keep", x, keep=("bool", (20,), {"periodic": listed(1, 1, 0)})),
        case(
            "lengths_and_empty_rows",
            ("float32", (3, 6), x24),
            lengths=("int32", (3,), listed(0, 4, 6)),
            desc={"empty_row": 1},
        ),
        case("empty_rows_are_nan", ("float32", (2, 4), listed(-INF, -INF, -INF, -INF, 1, 2, 3, -INF))),
        case(
            "mask",
            attention,
            wants=("dx", "d_mask"),
            mask=("float32", (4, 6), {"periodic": listed(0, -1.5, -INF, 2, 0)}),
        ),
        case("slopes", attention, wants=("dx", "d_slopes"), slopes=slopes, d_lse="float32"),
        case(
            "sink",
            attention,
            wants=("dx", "d_sink"),
            sink=("float32", (3, 1), listed(0.5, -INF, 2)),
            d_lse="float32",
        ),
        case(
            "temperature",
            attention,
            wants=("dx", "d_temperature"),
            temperature=("float32", (2, 1, 1), listed(0.5, 2)),
        ),
        case(
            "everything",
            attention,
            wants=every,
            d_lse="float32",
            desc={"scale": 0.7, "softcap": 20.0, "causal": 1, "diagonal": 1, "window": 5, "empty_row": 1},
            mask=("float32", (4, 6), {"periodic": listed(0, -1.5, 2)}),
            slopes=slopes,
            sink=("float32", (3, 1), listed(0.5, -1, 2)),
            temperature=("float32", (2, 3, 4), {"periodic": listed(1, 0.5, 2)}),
        ),
    ]
    argument = "SLUICE_INVALID_ARGUMENT"
    temperature = ("float32", (3,), listed(1, 2, 0.5))
    made += [
        case(
            "fails_without_x",
            x,
            without=("x",),
            fails=(argument, "softmax_backward: desc.x is NULL, want it for dx without desc.y"),
        ),
        case(
            "fails_without_lse",
            x,
            without=("lse",),
            fails=(argument, "softmax_backward: desc.lse is NULL, want it for dx without desc.y"),
        ),
        case(
            "fails_without_gradient",
            x,
            None,
            fails=(argument, "softmax_backward: dy is NULL, want it or desc.d_lse"),
        ),
        case(
            "fails_without_result",
            x,
            without=("dx",),
            fails=(argument, "softmax_backward: dx is NULL, want it or a gradient in desc"),
        ),
        case(
            "fails_gradient_without_operand",
            x,
            wants=("dx", "d_temperature"),
            temperature=temperature,
            without=("temperature",),
            fails=(argument, "softmax_backward: desc.temperature is NULL, want it beside desc.d_temperature"),
        ),
        case(
            "fails_with_softcap_from_y",
            x,
            saved=("y",),
            desc={"softcap": 2.0},
            fails=(argument, "softmax_backward: desc.x is NULL, want it for dx with desc.softcap"),
        ),
        case(
            "fails_without_workspace",
            x,
            wants=("dx", "d_temperature"),
            temperature=temperature,
            workspace=0,
            fails=("SLUICE_WORKSPACE_TOO_SMALL", None),
        ),
    ]
    return made
