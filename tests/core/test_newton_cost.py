"""The choice between Hessians and products, on the sizes it was made for."""

import pytest

from unfit.core.newton_cost import FEWEST_PRODUCTS, PRODUCTS_PER_HESSIAN, Sizes


def sizes(n, d, k=1, itemsize=4):
    return Sizes(n=n, d=d, k=k, numbers=n * d, itemsize=itemsize)


@pytest.mark.parametrize(
    ("n", "d", "k", "products"),
    [
        (10_000, 3072, 1, True),  # CIFAR2
        (11_982, 784, 1, True),  # MNIST-b
        (60_000, 784, 10, True),  # MNIST
        (400_000, 2000, 1, True),  # EPSILON
        (522_910, 54, 1, False),  # COVTYPE
        (9_900_000, 28, 1, False),  # HIGGS
        (1_500, 65, 10, False),  # digits
        (100, 5000, 1, False),  # fewer rows than columns: a matrix of 100 x 100
    ],
)
def test_hessians_of_few_columns_and_products_of_many(n, d, k, products):
    assert sizes(n, d, k).products_are_cheaper() == products


def test_the_costs_are_those_of_the_formulae():
    found = sizes(10_000, 1000, 2)
    assert found.product == 10_000 * 1000 * (4 + 8 / 1.25)
    assert found.hessian == 2 * (10_000 * 1000 * 1000 / 4 + 1000**3 / 3)
    assert found.sample() == 2000
    assert found.guide() == 2 * (2000 * 1000 * 1000 / 4 + 1000**3 / 3)
    assert found.products_per_guide() == FEWEST_PRODUCTS > found.guide() / found.product
    wider = sizes(10_000, 3072)
    assert wider.products_per_guide() == -(-wider.guide() // wider.product)
    assert PRODUCTS_PER_HESSIAN * found.product < found.hessian


def test_a_guide_is_never_made_before_a_few_products():
    assert sizes(10_000_000, 300).products_per_guide() == FEWEST_PRODUCTS


def test_a_sample_is_never_larger_than_the_rows():
    assert sizes(500, 400).sample() == 500
