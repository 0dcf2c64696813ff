SELECT
  this_year.channel AS this_channel, this_year.i_brand_id AS this_brand_id, this_year.i_class_id AS this_class_id,
  this_year.i_category_id AS this_category_id, this_year.sales AS this_sales, this_year.number_sales AS this_number_sales,
  last_year.channel AS last_channel, last_year.i_brand_id AS last_brand_id, last_year.i_class_id AS last_class_id,
  last_year.i_category_id AS last_category_id, last_year.sales AS last_sales, last_year.number_sales AS last_number_sales
FROM
  (SELECT 'store' AS channel, i_brand_id, i_class_id, i_category_id,
          SUM(ss_quantity * ss_list_price) AS sales, COUNT(*) AS number_sales
   FROM store_sales, item, date_dim
   WHERE ss_item_sk IN (SELECT ss_item_sk FROM cross_items) AND ss_item_sk = i_item_sk AND ss_sold_date_sk = d_date_sk
     AND d_week_seq = (SELECT d_week_seq FROM date_dim WHERE d_year = 1999 + 1 AND d_moy = 12 AND d_dom = 11)
   GROUP BY i_brand_id, i_class_id, i_category_id
   HAVING SUM(ss_quantity * ss_list_price) > (SELECT average_sales FROM avg_sales)) AS this_year,
  (SELECT 'store' AS channel, i_brand_id, i_class_id, i_category_id,
          SUM(ss_quantity * ss_list_price) AS sales, COUNT(*) AS number_sales
   FROM store_sales, item, date_dim
   WHERE ss_item_sk IN (SELECT ss_item_sk FROM cross_items) AND ss_item_sk = i_item_sk AND ss_sold_date_sk = d_date_sk
     AND d_week_seq = (SELECT d_week_seq FROM date_dim WHERE d_year = 1999 AND d_moy = 12 AND d_dom = 11)
   GROUP BY i_brand_id, i_class_id, i_category_id
   HAVING SUM(ss_quantity * ss_list_price) > (SELECT average_sales FROM avg_sales)) AS last_year
WHERE this_year.i_brand_id = last_year.i_brand_id
  AND this_year.i_class_id = last_year.i_class_id
  AND this_year.i_category_id = last_year.i_category_id
ORDER BY this_channel, this_brand_id, this_class_id, this_category_id
LIMIT 100
